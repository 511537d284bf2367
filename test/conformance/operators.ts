import type { Runtime } from "../../src/index.ts";
import * as operators from "../../src/onnx/index.ts";
import { onnxOperators } from "../reference/onnx.ts";
import type { RefTensor, Rounding } from "../reference/rounding.ts";
import { type Inputs, stored } from "./stored.ts";

/** Computes an operator of ONNX by its name; `outputs` are those wanted. */
export type RunOperator = (
  op: string,
  attributes: Record<string, number>,
  inputs: Inputs,
  outputs: string[],
) => Record<string, RefTensor>;

/** The reference's; `other` takes the second of two plain forms. A float attribute is a float32. */
export const referenceOperators =
  (round: Rounding, other: boolean): RunOperator =>
  (op, attributes, inputs) => {
    const operator = onnxOperators[op];
    if (!operator) throw new Error(`unknown operator ${op}`);
    const values = Object.entries(inputs).map(([name, { dtype, data, shape }]) => [
      name,
      { data, shape, isBoolean: dtype === "bool" },
    ]);
    const floats = Object.entries(attributes).map(([name, value]) => [name, Math.fround(value)]);
    return operator(Object.fromEntries(floats), Object.fromEntries(values), round, other);
  };

type AnyOperator = (attributes: object, inputs: object, options: object) => Record<string, RefTensor>;

/** The library's, by the public functions. */
export const runtimeOperators =
  (runtime: Runtime): RunOperator =>
  (op, attributes, inputs, outputs) => {
    const name = op.startsWith("RMS") ? `rms${op.slice(3)}` : op[0]?.toLowerCase() + op.slice(1);
    const operator = operators[name as "attention"] as unknown as AnyOperator;
    return operator(attributes, stored(inputs), { runtime, outputs });
  };

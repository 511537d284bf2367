import type { Runtime } from "../../src/index.ts";
import { attention, type RefAttention, type RefAttentionOptions } from "../reference/attention.ts";
import {
  matmul,
  matmulBackward,
  type RefMatmulGradients,
  type RefMatmulOptions,
} from "../reference/matmul.ts";
import type { TestTensor } from "../reference/random.ts";
import { float32, type RefTensor, type Rounding } from "../reference/rounding.ts";
import {
  logSoftmax,
  logSoftmaxBackward,
  logSumExp,
  logSumExpBackward,
  softmax,
  softmaxBackward,
} from "../reference/softmax.ts";
import type { CaseFile, CaseTensor } from "./data.ts";
import { type RunOperator, referenceOperators, runtimeOperators } from "./operators.ts";

/** What a case is computed with: the library, or the reference in float64 or in plain float32. */
export interface Engine {
  attention(q: TestTensor, k: TestTensor, v: TestTensor, options: RefAttentionOptions): RefAttention;
  matmul(a: TestTensor, b: TestTensor, options: RefMatmulOptions & { c?: TestTensor }): RefTensor;
  matmulBackward(dOut: TestTensor, a: TestTensor, b: TestTensor): RefMatmulGradients;
  softmax(x: TestTensor, axis: number): RefTensor;
  softmaxBackward(dOut: TestTensor, y: RefTensor, axis: number): RefTensor;
  logSoftmax(x: TestTensor, axis: number): RefTensor;
  logSoftmaxBackward(dOut: TestTensor, y: RefTensor, axis: number): RefTensor;
  logSumExp(x: TestTensor, axes: number[], keepDims: boolean): RefTensor;
  logSumExpBackward(dOut: TestTensor, x: TestTensor, axis: number): RefTensor;
  onnx: RunOperator;
}

/** A case file brought to the terms of an engine. */
export interface Case {
  readonly name: string;
  readonly op: string;
  /** Features the case cannot do without, beyond those every engine has. */
  readonly features: readonly string[];
  /** Outputs that `compute` does not give, and the feature that would. */
  readonly leftOutputs: Readonly<Record<string, string>>;
  /** The outputs it does give. */
  readonly expected: Readonly<Record<string, CaseTensor>>;
  /** The float32 operands. */
  readonly operands: readonly TestTensor[];
  /** Operands, by index, chosen so that products of them are exact in float32. */
  readonly exact: readonly number[];
  readonly compute: (engine: Engine, operands: readonly TestTensor[]) => Record<string, RefTensor>;
}

/** `scaleQuery` picks one of the two plain forms of attention. */
export const referenceEngine = (round: Rounding, scaleQuery = false): Engine => ({
  attention: (q, k, v, options) => attention(q, k, v, { ...options, scaleQuery }, round),
  matmul: (a, b, options) => matmul(a, b, options, round),
  matmulBackward: (dOut, a, b) => matmulBackward(dOut, a, b, {}, round),
  softmax: (x, axis) => softmax(x, axis, round),
  softmaxBackward: (dOut, y, axis) => softmaxBackward(dOut, y, axis, round),
  logSoftmax: (x, axis) => logSoftmax(x, axis, round),
  logSoftmaxBackward: (dOut, y, axis) => logSoftmaxBackward(dOut, y, axis, round),
  logSumExp: (x, axes, keepDims) => logSumExp(x, axes, keepDims, round),
  logSumExpBackward: (dOut, x, axis) => logSumExpBackward(dOut, softmax(x, axis, round), axis, round),
  onnx: referenceOperators(round, scaleQuery),
});

export const runtimeEngine = (runtime: Runtime): Engine => ({
  // The types differ in that masks and slopes of the reference may be float64; those of the cases are float32.
  attention: (q, k, v, options) =>
    runtime.scaledDotProductAttention(q, k, v, { ...options, returnLse: true } as { returnLse: true }),
  matmul: (a, b, options) => runtime.matmul(a, b, options),
  matmulBackward: (dOut, a, b) => runtime.matmulBackward({ dOut, a, b }),
  softmax: (x, axis) => runtime.softmax(x, { axis }),
  softmaxBackward: (dOut, y, axis) => runtime.softmaxBackward(dOut, toFloat32(y), { axis }),
  logSoftmax: (x, axis) => runtime.logSoftmax(x, { axis }),
  logSoftmaxBackward: (dOut, y, axis) => runtime.logSoftmaxBackward(dOut, toFloat32(y), { axis }),
  logSumExp: (x, axis, keepDims) => runtime.logSumExp(x, { axis, keepDims }),
  // Nothing of the library's own: its softmax is all that the gradient needs.
  logSumExpBackward: (dOut, x, axis) => logSumExpBackward(dOut, runtime.softmax(x, { axis }), axis, float32),
  onnx: runtimeOperators(runtime),
});

/** How a file reads: what it needs, its operands, and what an engine makes of them. */
interface Reading {
  features?: readonly string[];
  /** Outputs that are not computed, with the feature that would. */
  leftBy?: Readonly<Record<string, string>>;
  operands: readonly TestTensor[];
  exact?: readonly number[];
  compute: Case["compute"];
}

/** Splits the outputs of a file by whether a feature that is left would be needed for them. */
export function makeCase(kind: string, file: CaseFile, reading: Reading): Case {
  const { features = [], leftBy = {}, operands, exact = [], compute } = reading;
  const names = Object.keys(file.outputs);
  const left = names.filter((name) => name in leftBy);
  const pick = <T>(of: readonly string[], from: Readonly<Record<string, T>>): Record<string, T> =>
    Object.fromEntries(of.map((name) => [name, from[name] as T]));
  return {
    name: `${kind}/${file.name}`,
    op: file.op,
    features,
    leftOutputs: pick(left, leftBy),
    expected: pick(
      names.filter((name) => !left.includes(name)),
      file.outputs,
    ),
    operands,
    exact,
    compute,
  };
}

/** A required input, in float32. */
export function input(file: CaseFile, name: string): TestTensor {
  const tensor = file.inputs[name];
  if (!tensor) throw new Error(`${file.name}: input ${name} is not there`);
  return toFloat32(tensor);
}

export const toFloat32 = ({ data, shape }: RefTensor): TestTensor => ({
  data: Float32Array.from(data),
  shape: [...shape],
});

/** A case that holds anything this reader does not know must not pass for understood. */
export function expectKnown(
  file: CaseFile,
  what: string,
  names: readonly string[],
  known: readonly string[],
): void {
  const unknown = names.filter((name) => !known.includes(name));
  if (unknown.length > 0) throw new Error(`${file.name}: unknown ${what} ${unknown.join(", ")}`);
}

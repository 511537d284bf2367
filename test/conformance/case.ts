import type { AttentionOptions, Runtime } from "../../src/index.ts";
import { attention, type RefAttention, type RefAttentionOptions } from "../reference/attention.ts";
import { attentionBackward, type RefGradients } from "../reference/attention-backward.ts";
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
  attentionBackward(
    dOut: TestTensor,
    operands: readonly [query: TestTensor, key: TestTensor, value: TestTensor],
    options: RefAttentionOptions,
  ): RefAttention & RefGradients;
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
  /** The outputs it gives. */
  readonly expected: Readonly<Record<string, CaseTensor>>;
  /** The float32 operands. */
  readonly operands: readonly TestTensor[];
  /** Operands, by index, chosen so that products of them are exact in float32. */
  readonly exact: readonly number[];
  readonly compute: (engine: Engine, operands: readonly TestTensor[]) => Record<string, RefTensor>;
}

/** `draw` picks one of the plain forms of attention, which differ in their roundings. */
export const referenceEngine = (round: Rounding, draw = 0): Engine => ({
  attention: (q, k, v, options) => attention(q, k, v, { ...options, scaleQuery: draw % 2 === 1 }, round),
  attentionBackward: (dOut, [query, key, value], options) => {
    const form = { ...options, scaleQuery: draw % 2 === 1, deltaFromOut: draw % 4 >= 2 };
    return {
      ...attention(query, key, value, form, round),
      ...attentionBackward({ dOut, query, key, value }, form, round),
    };
  },
  matmul: (a, b, options) => matmul(a, b, options, round),
  matmulBackward: (dOut, a, b) => matmulBackward(dOut, a, b, {}, round),
  softmax: (x, axis) => softmax(x, axis, round),
  softmaxBackward: (dOut, y, axis) => softmaxBackward(dOut, y, axis, round),
  logSoftmax: (x, axis) => logSoftmax(x, axis, round),
  logSoftmaxBackward: (dOut, y, axis) => logSoftmaxBackward(dOut, y, axis, round),
  logSumExp: (x, axes, keepDims) => logSumExp(x, axes, keepDims, round),
  logSumExpBackward: (dOut, x, axis) => logSumExpBackward(dOut, softmax(x, axis, round), axis, round),
  onnx: referenceOperators(round, draw % 2 === 1),
});

export const runtimeEngine = (runtime: Runtime): Engine => ({
  // The types differ in that masks and slopes of the reference may be float64; those of the cases are float32.
  attention: (q, k, v, options) =>
    runtime.scaledDotProductAttention(q, k, v, { ...options, returnLse: true } as { returnLse: true }),
  attentionBackward: (dOut, [query, key, value], given) => {
    const options = given as AttentionOptions;
    const forward = runtime.scaledDotProductAttention(query, key, value, { ...options, returnLse: true });
    const returnDAttnMask = options.attnMask?.data instanceof Float32Array;
    const inputs = { ...options, dOut, query, key, value, ...forward, returnDAttnMask };
    return { ...forward, ...runtime.scaledDotProductAttentionBackward(inputs) } as RefAttention &
      RefGradients;
  },
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
  operands: readonly TestTensor[];
  exact?: readonly number[];
  compute: Case["compute"];
}

export function makeCase(kind: string, file: CaseFile, reading: Reading): Case {
  const { features = [], operands, exact = [], compute } = reading;
  return {
    name: `${kind}/${file.name}`,
    op: file.op,
    features,
    expected: file.outputs,
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

// The weights of multiHeadAttention, read as four projections y = x W + b, whichever way they are given.
import { copyBroadcast } from "./broadcast.ts";
import { gemmScratchBytes } from "./matmul-problem.ts";
import { describe, showShape } from "./shapes.ts";
import { type Core, type Operand, readOperand } from "./tensor.ts";
import type { MultiHeadAttentionOptions } from "./types/multi-head-attention.ts";
import type { TensorLike } from "./types/tensor.ts";

/** A weight as a matrix from inputs to outputs, with its strides in elements. */
interface Weight {
  name: string;
  operand: Operand;
  inputs: number;
  outputs: number;
  inputStride: number;
  outputStride: number;
}

/** y = x W + b, of outputs that may be some of those of a larger weight and bias. */
export interface Projection extends Weight {
  /** First output within the weight, and within the bias. */
  first: number;
  biasName: string;
  bias: Operand | undefined;
  biasFirst: number;
}

/** The four, and the widths of a head that follow from them. */
export interface Projections {
  query: Projection;
  key: Projection;
  value: Projection;
  out: Projection;
  headDim: number;
  valueDim: number;
}

/** What they are applied to, and how many heads they make. */
export interface Heads {
  query: Operand;
  key: Operand;
  value: Operand;
  numHeads: number;
  numKvHeads: number;
}

type Options = MultiHeadAttentionOptions;
const SEPARATE = ["qProjWeight", "kProjWeight", "vProjWeight"] as const;
const BIASES = ["qProjBias", "kProjBias", "vProjBias"] as const;

const shown = ({ name, operand }: Weight): string => `${name} ${showShape(operand.shape)}`;

function readIsIo(fn: string, layout: unknown): boolean {
  if (layout === undefined || layout === "oi") return false;
  if (layout === "io") return true;
  throw new TypeError(`${fn}: weightLayout must be "oi" or "io", got ${describe(layout)}`);
}

function readWeight(core: Core, fn: string, name: string, value: TensorLike, isIo: boolean): Weight {
  const operand = readOperand(core, fn, name, value);
  const { shape } = operand;
  if (shape.length !== 2) {
    const wanted = isIo ? "[inputs, outputs]" : "[outputs, inputs]";
    throw new RangeError(`${fn}: ${name} must have shape ${wanted}, got ${showShape(shape)}`);
  }
  const [rows, columns] = shape as [number, number];
  return isIo
    ? { name, operand, inputs: rows, outputs: columns, inputStride: columns, outputStride: 1 }
    : { name, operand, inputs: columns, outputs: rows, inputStride: 1, outputStride: columns };
}

function readBias(
  core: Core,
  fn: string,
  name: string,
  value: TensorLike | undefined,
  length: number,
): Operand | undefined {
  if (value === undefined) return undefined;
  const bias = readOperand(core, fn, name, value);
  if (bias.shape.length !== 1 || bias.shape[0] !== length) {
    throw new RangeError(
      `${fn}: ${name} must have shape [${length}], one number for each output, got ${showShape(bias.shape)}`,
    );
  }
  return bias;
}

function checkInputs(fn: string, weight: Weight, name: string, x: Operand): void {
  const width = x.shape[x.shape.length - 1]!;
  if (weight.inputs === width) return;
  throw new RangeError(
    `${fn}: inputs of ${weight.name} must be the width of ${name}, got ${weight.inputs} and ${width}: ` +
      `${shown(weight)}, ${name} ${showShape(x.shape)}`,
  );
}

/** The width of one of `heads` heads. */
function widthOfHead(fn: string, weight: Weight, heads: number, rule: string, got: string): number {
  if (weight.outputs % heads === 0) return weight.outputs / heads;
  throw new RangeError(
    `${fn}: outputs of ${weight.name} must be a multiple of ${rule}, got ${weight.outputs} and ${got}: ${shown(weight)}`,
  );
}

/** A part of the outputs of a weight, without its bias. */
type Part = Weight & { first: number };

/** The three projections into heads from one weight. */
function splitFused(fn: string, weight: Weight, { numHeads, numKvHeads }: Heads): [Part, Part, Part] {
  const rule = "numHeads + 2 numKvHeads";
  const got = `${numHeads} + 2 * ${numKvHeads}`;
  const d = widthOfHead(fn, weight, numHeads + 2 * numKvHeads, rule, got);
  const part = (first: number, heads: number): Part => ({ ...weight, first: first * d, outputs: heads * d });
  return [part(0, numHeads), part(numHeads, numKvHeads), part(numHeads + numKvHeads, numKvHeads)];
}

/** The three projections into heads: the parts of inProjWeight, or a weight each. */
function readParts(core: Core, fn: string, options: Options, heads: Heads, isIo: boolean): Part[] {
  const given = SEPARATE.filter((name) => options[name] !== undefined);
  if (options.inProjWeight !== undefined) {
    if (given.length > 0) {
      throw new TypeError(`${fn}: inProjWeight holds all three projections; leave out ${given.join(", ")}`);
    }
    const weight = readWeight(core, fn, "inProjWeight", options.inProjWeight, isIo);
    return splitFused(fn, weight, heads);
  }
  if (given.length < SEPARATE.length) {
    throw new TypeError(
      `${fn}: the weights must be inProjWeight or ${SEPARATE.join(", ")}, got ${given.join(", ") || "none of them"}`,
    );
  }
  const parts = SEPARATE.map((name) => ({ ...readWeight(core, fn, name, options[name]!, isIo), first: 0 }));
  const [query, key, value] = parts as [Part, Part, Part];
  const d = widthOfHead(fn, query, heads.numHeads, "numHeads", String(heads.numHeads));
  if (key.outputs !== heads.numKvHeads * d) {
    throw new RangeError(
      `${fn}: outputs of kProjWeight must be numKvHeads ${heads.numKvHeads} times the headDim ${d} of qProjWeight, ` +
        `got ${key.outputs}: ${shown(key)}, ${shown(query)}`,
    );
  }
  widthOfHead(fn, value, heads.numKvHeads, "numKvHeads", String(heads.numKvHeads));
  return parts;
}

/** Adds the biases, one for all of them or one each. */
function withBiases(core: Core, fn: string, options: Options, parts: Part[]): Projection[] {
  const total = parts.reduce((sum, { outputs }) => sum + outputs, 0);
  const fused = readBias(core, fn, "inProjBias", options.inProjBias, total);
  const given = BIASES.filter((name) => options[name] !== undefined);
  if (fused !== undefined && given.length > 0) {
    throw new TypeError(`${fn}: inProjBias holds all three biases; leave out ${given.join(", ")}`);
  }
  let first = 0;
  return parts.map((part, i) => {
    const biasFirst = first;
    first += part.outputs;
    if (fused !== undefined) return { ...part, biasName: "inProjBias", bias: fused, biasFirst };
    const biasName = BIASES[i]!;
    const bias = readBias(core, fn, biasName, options[biasName], part.outputs);
    return { ...part, biasName, bias, biasFirst: 0 };
  });
}

export function readProjections(core: Core, fn: string, options: Options, heads: Heads): Projections {
  const isIo = readIsIo(fn, options.weightLayout);
  const parts = readParts(core, fn, options, heads, isIo);
  const [query, key, value] = withBiases(core, fn, options, parts) as [Projection, Projection, Projection];
  checkInputs(fn, query, "query", heads.query);
  checkInputs(fn, key, "key", heads.key);
  checkInputs(fn, value, "value", heads.value);
  const valueDim = value.outputs / heads.numKvHeads;
  if (options.outProjWeight === undefined) throw new TypeError(`${fn}: outProjWeight is missing`);
  const weight = readWeight(core, fn, "outProjWeight", options.outProjWeight, isIo);
  if (weight.inputs !== heads.numHeads * valueDim) {
    throw new RangeError(
      `${fn}: inputs of outProjWeight must be numHeads ${heads.numHeads} times the width ${valueDim} of a value head, ` +
        `got ${weight.inputs}: ${shown(weight)}`,
    );
  }
  const bias = readBias(core, fn, "outProjBias", options.outProjBias, weight.outputs);
  const out = { ...weight, first: 0, biasName: "outProjBias", bias, biasFirst: 0 };
  return { query, key, value, out, headDim: query.outputs / heads.numHeads, valueDim };
}

/** Bytes of scratch for one projection of `rows` rows. */
export function projectionScratchBytes(core: Core, rows: number, p: Projection): number {
  return gemmScratchBytes(core, rows, p.outputs, p.inputs, 1, p.outputStride);
}

/** Projects `rows` rows at address x to address `to`; `addresses` has those of weights and biases. */
export function project(
  { kernels, memory }: Core,
  p: Projection,
  addresses: ReadonlyMap<Operand, number>,
  x: number,
  rows: number,
  to: number,
  scratch: number,
): void {
  const { inputs, outputs, inputStride, outputStride, bias } = p;
  const weight = addresses.get(p.operand)! + p.first * outputStride * 4;
  if (bias !== undefined) {
    const from = (addresses.get(bias)! >>> 2) + p.biasFirst;
    copyBroadcast(memory.f32, from, [outputs], [rows, outputs], memory.f32, to >>> 2);
  }
  const beta = bias === undefined ? 0 : 1;
  kernels.gemm(
    rows,
    outputs,
    inputs,
    1,
    x,
    inputs,
    1,
    weight,
    inputStride,
    outputStride,
    beta,
    to,
    outputs,
    scratch,
    0,
    rows,
  );
}

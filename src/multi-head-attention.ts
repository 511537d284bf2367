// multiHeadAttention: projections into heads, attention over them, and the projection of what they give.
// All that lies between is staged in the arena, with rows of heads side by side: the layout "blhd" of attention, so
// that heads are split and joined without moving anything. Three products, not one, make the heads of a fused weight:
// their cost is the weight's, and each result is contiguous.
import { checkScoreAlias, type Inputs, inputsOf, SCORE_OPTIONS } from "./attention-problem.ts";
import { attend, scratchBytes as attentionScratchBytes, inputBytes } from "./attention-staging.ts";
import { blockBytes } from "./memory.ts";
import {
  type Heads,
  type Projection,
  type Projections,
  project,
  projectionScratchBytes,
  readProjections,
} from "./projections.ts";
import { Result, reserve } from "./result.ts";
import { narrowed, type Rotation, readRotation, rotate, stageTurns, turnBytes } from "./rotary-problem.ts";
import { readInteger, readOptions, sameShape, showShape, sizeOf } from "./shapes.ts";
import { type Core, checkAlias, type Operand, readOperand, readOut } from "./tensor.ts";
import type { AttentionOptions } from "./types/attention.ts";
import type { HeadRotary, MultiHeadAttentionOptions } from "./types/multi-head-attention.ts";
import type { Shape, Tensor, TensorLike } from "./types/tensor.ts";

const FN = "multiHeadAttention";
const OPTIONS: ReadonlySet<keyof MultiHeadAttentionOptions> = new Set([
  "numHeads",
  "numKvHeads",
  "inProjWeight",
  "inProjBias",
  "qProjWeight",
  "kProjWeight",
  "vProjWeight",
  "qProjBias",
  "kProjBias",
  "vProjBias",
  "outProjWeight",
  "outProjBias",
  "weightLayout",
  "rotary",
  ...SCORE_OPTIONS.filter((name) => name !== "layout"),
  "out",
]);
const ROTARY_OPTIONS: ReadonlySet<keyof HeadRotary> = new Set([
  "cos",
  "sin",
  "positionIds",
  "positionOffset",
  "interleaved",
  "rotaryDim",
]);
const NO_DATA = new Float32Array(0);

/** Throws unless query [..., lq, E] meets key and value [..., lk, E'] of as many batch axes. */
function checkShapes(q: Shape, k: Shape, v: Shape): void {
  const fail = (rule: string): never => {
    throw new RangeError(
      `${FN}: ${rule}, got query ${showShape(q)}, key ${showShape(k)}, value ${showShape(v)}`,
    );
  };
  if (q.length < 2 || k.length !== q.length || v.length !== q.length) {
    fail("query, key and value must have one rank of 2 or more");
  }
  if (!sameShape(k.slice(0, -1), v.slice(0, -1))) fail("batch axes and length of value must be those of key");
  const [batch, keyBatch] = [q.slice(0, -2), k.slice(0, -2)];
  if (!sameShape(batch, keyBatch) && sizeOf(batch) !== 1 && sizeOf(keyBatch) !== 1) {
    fail("batch axes of query and key must be the same, or 1 in one of them");
  }
}

/** Reads the operands, those left out being the one before, and the heads they are to have. */
function readHeads(
  core: Core,
  query: TensorLike,
  key: TensorLike | undefined,
  value: TensorLike | undefined,
  options: MultiHeadAttentionOptions,
): Heads {
  const q = readOperand(core, FN, "query", query);
  const k = key === undefined || key === query ? q : readOperand(core, FN, "key", key);
  const v = value === undefined || value === key ? k : readOperand(core, FN, "value", value);
  checkShapes(q.shape, k.shape, v.shape);
  const numHeads = readInteger(FN, "numHeads", options.numHeads, 1);
  const numKvHeads =
    options.numKvHeads === undefined ? numHeads : readInteger(FN, "numKvHeads", options.numKvHeads, 1);
  if (numHeads % numKvHeads !== 0) {
    throw new RangeError(
      `${FN}: numHeads must be a multiple of numKvHeads, got ${numHeads} and ${numKvHeads}`,
    );
  }
  return { query: q, key: k, value: v, numHeads, numKvHeads };
}

/** Heads that a projection will have made of x: [...batch, length, heads, width], at no address yet. */
function headsOf(x: Operand, numHeads: number, width: number): Operand {
  const shape = [...x.shape.slice(0, -1), numHeads, width];
  return { data: NO_DATA, shape, size: sizeOf(shape), address: 0, resident: true };
}

function readRotary(core: Core, given: HeadRotary, isSelf: boolean, shape: Shape): Rotation {
  const fn = `${FN}: rotary`;
  const { cos, sin, ...options } = readOptions(fn, given, ROTARY_OPTIONS);
  if (!isSelf) {
    throw new TypeError(
      `${fn} is for self-attention, where query and key have the same positions; leave out key and value`,
    );
  }
  return readRotation(core, fn, shape, cos, sin, { ...options, layout: "blhd" });
}

/** One checked call. */
interface Problem {
  heads: Heads;
  projections: Projections;
  /** Attention over the heads. */
  inputs: Inputs;
  rotation: Rotation | undefined;
}

function readProblem(
  core: Core,
  query: TensorLike,
  key: TensorLike | undefined,
  value: TensorLike | undefined,
  options: MultiHeadAttentionOptions,
): Problem {
  const heads = readHeads(core, query, key, value, options);
  const projections = readProjections(core, FN, options, heads);
  const { numHeads, numKvHeads } = heads;
  const { headDim, valueDim } = projections;
  const q = headsOf(heads.query, numHeads, headDim);
  const k = headsOf(heads.key, numKvHeads, headDim);
  const v = headsOf(heads.value, numKvHeads, valueDim);
  const scores: AttentionOptions = { ...options, layout: "blhd" };
  const inputs = inputsOf(core, FN, q, k, v, scores);
  const isSelf = heads.key === heads.query && heads.value === heads.query;
  const rotation =
    options.rotary === undefined ? undefined : readRotary(core, options.rotary, isSelf, q.shape);
  return { heads, projections, inputs, rotation };
}

/** The operands that projections read, each once, with the name of the first argument that it is. */
function operandsOf({ heads, projections }: Problem): Map<Operand, string> {
  const operands = new Map<Operand, string>();
  const add = (name: string, operand: Operand | undefined): void => {
    if (operand !== undefined && !operands.has(operand)) operands.set(operand, name);
  };
  for (const name of ["query", "key", "value"] as const) add(name, heads[name]);
  const { query, key, value, out } = projections;
  for (const { name, operand, biasName, bias } of [query, key, value, out]) {
    add(name, operand);
    add(biasName, bias);
  }
  return operands;
}

/** Makes the result: over query, key or value if `out` is one of them, which are read before it is written. */
function makeResult(
  core: Core,
  { heads, projections, inputs, rotation }: Problem,
  operands: ReadonlyMap<Operand, string>,
  given: TensorLike | undefined,
): Result {
  const { lead, p } = inputs;
  const shape = [...lead.slice(0, -3), p.lq, projections.out.outputs];
  const out = readOut(core, FN, given, shape);
  const sources = [heads.query, heads.key, heads.value];
  for (const [operand, name] of operands) checkAlias(FN, out, name, operand, sources.includes(operand));
  checkScoreAlias(FN, out, inputs);
  if (rotation !== undefined) {
    checkAlias(FN, out, "rotary.cos", rotation.cos);
    checkAlias(FN, out, "rotary.sin", rotation.sin);
  }
  let resident = true;
  for (const operand of operands.keys()) resident &&= operand.resident;
  return new Result(core, FN, shape, out, given, resident);
}

const rowsOf = (x: Operand): number => sizeOf(x.shape.slice(0, -1));

/** Bytes of scratch that serve each of the five kernels in turn. */
function scratchBytes(core: Core, { heads, projections, inputs }: Problem, rowsOut: number): number {
  const { query, key, value, out } = projections;
  return Math.max(
    projectionScratchBytes(core, rowsOf(heads.query), query),
    projectionScratchBytes(core, rowsOf(heads.key), key),
    projectionScratchBytes(core, rowsOf(heads.value), value),
    projectionScratchBytes(core, rowsOut, out),
    attentionScratchBytes(core, inputs.p),
  );
}

/** Reserves the arena for all of it, copies in what does not live in Wasm memory, and runs the kernels. */
function run(core: Core, problem: Problem, operands: ReadonlyMap<Operand, string>, result: Result): Tensor {
  if (result.size === 0) return result.finish(0);
  const { memory } = core;
  const { heads, projections, inputs } = problem;
  const { p } = inputs;
  const rotation = problem.rotation === undefined ? undefined : narrowed(problem.rotation);
  const rowsOut = p.batch * p.lq;
  const scratchSize = scratchBytes(core, problem, rowsOut);
  const joinedBytes = rowsOut * p.numHeads * p.dv * 4;
  let bytes =
    inputBytes(core, inputs) + blockBytes(scratchSize) + blockBytes(joinedBytes) + result.stagedBytes();
  for (const operand of operands.keys()) bytes += memory.stagedBytes(operand);
  for (const { size } of [inputs.q, inputs.k, inputs.v]) bytes += blockBytes(size * 4);
  if (rotation !== undefined) bytes += turnBytes(core, rotation);
  reserve(core, FN, bytes, [result]);

  const addresses = new Map<Operand, number>();
  for (const operand of operands.keys()) addresses.set(operand, memory.stageOperand(operand));
  const scratch = memory.stage(scratchSize);
  const intoHeads = (projection: Projection, x: Operand, to: Operand): Operand => {
    const address = memory.stage(to.size * 4);
    project(core, projection, addresses, addresses.get(x)!, rowsOf(x), address, scratch);
    return { ...to, address };
  };
  const q = intoHeads(projections.query, heads.query, inputs.q);
  const k = intoHeads(projections.key, heads.key, inputs.k);
  const v = intoHeads(projections.value, heads.value, inputs.v);
  if (rotation !== undefined) {
    const turns = stageTurns(core, rotation);
    rotate(core, rotation, p.numHeads, turns, q.address, q.address);
    rotate(core, rotation, p.numKvHeads, turns, k.address, k.address);
  }
  const joined = memory.stage(joinedBytes);
  attend(core, { ...inputs, q, k, v }, joined, core.kernels.NO_LSE, scratch);
  const to = result.stage();
  project(core, projections.out, addresses, joined, rowsOut, to, scratch);
  return result.finish(to);
}

type Others =
  | [options: MultiHeadAttentionOptions]
  | [key: TensorLike | undefined, value: TensorLike | undefined, options: MultiHeadAttentionOptions];

/** Of (query, options) or (query, key, value, options). */
export function multiHeadAttention(core: Core, query: TensorLike, others: Others): Tensor {
  const [key, value, given] = others.length === 1 ? [undefined, undefined, others[0]] : others;
  if (given === undefined) {
    throw new TypeError(
      `${FN}: arguments must be (x, options) or (query, key, value, options), key and value undefined where they are ` +
        `the one before, got ${others.length + 1} without options`,
    );
  }
  const options = readOptions(FN, given, OPTIONS);
  const problem = readProblem(core, query, key, value, options);
  const operands = operandsOf(problem);
  return run(core, problem, operands, makeResult(core, problem, operands, options.out));
}

// What every form of attention takes: query, key, value and the options that say which scores they make. Read and
// checked here once; attention-staging.ts brings it before the kernel.
import { type Mask, readMask } from "./mask.ts";
import { type Positions, readPositions, readWindow } from "./positions.ts";
import { checkRank, fail, readFlag, readInteger, readLayout, readNumber, showShape } from "./shapes.ts";
import { type Core, checkAlias, type Operand, readOperand } from "./tensor.ts";
import type { AttentionOptions } from "./types/attention.ts";
import type { Shape, TensorLike } from "./types/tensor.ts";

/** The options that say which scores there are; every form of attention knows them. */
export const SCORE_OPTIONS = [
  "attnMask",
  "isCausal",
  "scale",
  "queryOffset",
  "causalAlignment",
  "kvLengths",
  "windowSize",
  "softcap",
  "alibiSlopes",
  "sinks",
  "dropoutP",
  "seed",
  "layout",
] as const satisfies readonly (keyof AttentionOptions)[];

/** How a cache holds the keys and values: [batch, numKvHeads, capacity, width], position j in row j % capacity. */
export interface Stored {
  /** FLOAT32, FLOAT16 or FLOAT16_FINITE of the kernels. */
  kvType: number;
  capacity: number;
  /** The first key that a query may see: attnMask begins here. */
  firstKey: number;
}

/** The sizes of one call, every operand read as [batch, heads, length, width]. */
export interface Problem {
  /** Batch entries of the result, and of each operand: 1 serves every batch. */
  batch: number;
  queryBatch: number;
  keyBatch: number;
  valueBatch: number;
  numHeads: number;
  numKvHeads: number;
  lq: number;
  lk: number;
  d: number;
  dv: number;
  /** Layout [batch, length, heads, width] instead of [batch, heads, length, width]. */
  isBlhd: boolean;
  windowLeft: number;
  windowRight: number;
  scale: number;
  /** 0: none. */
  softcap: number;
  /** Probability that a weight is dropped; 0: none. */
  dropoutP: number;
  /** Key of the generator: an integer from 0 to 2^53 - 1. */
  seed: number;
  /** Absent where key and value are tensors. */
  stored: Stored | undefined;
}

/** Batch entries: the product of all axes before the last three. */
function batchOf(shape: Shape): number {
  let batch = 1;
  for (let i = 0; i < shape.length - 3; i++) {
    if (shape[i] === 0) return 0; // also where the others are beyond what a number holds
    batch *= shape[i]!;
  }
  return batch;
}

/** Throws unless the leading axes are those of `lead`, or one batch entry serves all. */
function checkBatch(fn: string, name: string, shape: Shape, batch: number, lead: Shape): void {
  if (batch === 1) return;
  for (let i = 0; i < shape.length - 3; i++) {
    if (shape[i] !== lead[i]) {
      fail(
        fn,
        `batch axes of ${name} must all be 1 or all be ${showShape(lead.slice(0, -3))}`,
        `${name} ${showShape(shape)}`,
      );
    }
  }
}

function checkEqual(
  fn: string,
  rule: string,
  a: number,
  b: number,
  nameA: string,
  shapeA: Shape,
  nameB: string,
  shapeB: Shape,
): void {
  if (a !== b) fail(fn, rule, `${a} and ${b}: ${nameA} ${showShape(shapeA)}, ${nameB} ${showShape(shapeB)}`);
}

/** Shape whose batch axes the result has: the first whose batch is not 1. */
function leadShape(q: Shape, k: Shape, v: Shape): Shape {
  return batchOf(q) !== 1 ? q : batchOf(k) !== 1 ? k : batchOf(v) !== 1 ? v : q;
}

/** The sizes that follow from the shapes alone. */
type Sizes = Pick<Problem, "numHeads" | "numKvHeads" | "lq" | "lk" | "d" | "dv">;

/** Reads the sizes of the three operands, heads third from last (blhd: second from last), 1 at rank 2. */
function readSizes(fn: string, q: Shape, k: Shape, v: Shape, isBlhd: boolean): Sizes {
  checkRank(fn, "query", q, isBlhd);
  const rank = q.length;
  if (k.length !== rank || v.length !== rank) {
    const shapes = `query ${showShape(q)}, key ${showShape(k)}, value ${showShape(v)}`;
    fail(fn, "query, key and value must have one rank", shapes);
  }
  const head = rank - (isBlhd ? 2 : 3);
  const length = rank - (isBlhd ? 3 : 2);
  const numHeads = rank === 2 ? 1 : q[head]!;
  const numKvHeads = rank === 2 ? 1 : k[head]!;
  const d = q[rank - 1]!;
  if (d === 0) fail(fn, "headDim of query must be at least 1", `query ${showShape(q)}`);
  checkEqual(fn, "headDim of key must be that of query", k[rank - 1]!, d, "key", k, "query", q);
  checkEqual(fn, "length of value must be that of key", v[length]!, k[length]!, "value", v, "key", k);
  if (rank > 2)
    checkEqual(fn, "heads of value must be those of key", v[head]!, numKvHeads, "value", v, "key", k);
  if (numHeads > 0 && (numKvHeads === 0 || numHeads % numKvHeads !== 0)) {
    const rule = "heads of query must be a multiple of those of key";
    checkEqual(fn, rule, numHeads, numKvHeads, "query", q, "key", k);
  }
  return { numHeads, numKvHeads, lq: q[length]!, lk: k[length]!, d, dv: v[rank - 1]! };
}

/** Reads what the shapes and the options make together. */
function readProblem(
  fn: string,
  q: Shape,
  k: Shape,
  v: Shape,
  lead: Shape,
  options: AttentionOptions,
  unbounded: number,
  stored: Stored | undefined,
): Problem {
  const isCausal = readFlag(fn, "isCausal", options.isCausal);
  const [left, right] = readWindow(fn, options.windowSize, unbounded);
  const isBlhd = readLayout(fn, options.layout);
  const { numHeads, numKvHeads, lq, lk, d, dv } = readSizes(fn, q, k, v, isBlhd);
  const problem = {
    batch: batchOf(lead),
    queryBatch: batchOf(q),
    keyBatch: batchOf(k),
    valueBatch: batchOf(v),
    numHeads,
    numKvHeads,
    lq,
    lk,
    d,
    dv,
    isBlhd,
    windowLeft: left,
    windowRight: isCausal ? 0 : right,
    scale: readNumber(fn, "scale", options.scale, 1 / Math.sqrt(d)),
    softcap: readSoftcap(fn, options.softcap),
    dropoutP: readDropout(fn, options),
    seed: options.seed ?? 0,
    stored,
  };
  checkBatch(fn, "query", q, problem.queryBatch, lead);
  checkBatch(fn, "key", k, problem.keyBatch, lead);
  checkBatch(fn, "value", v, problem.valueBatch, lead);
  return problem;
}

function readSoftcap(fn: string, softcap: unknown): number {
  const value = readNumber(fn, "softcap", softcap, 0);
  if (value < 0 || (value > 0 && Math.fround(value) === 0)) {
    fail(fn, "softcap must be a positive float32 number, or 0 for none", String(value));
  }
  return value;
}

/** Checks dropoutP and the seed it needs. */
function readDropout(fn: string, { dropoutP, seed }: AttentionOptions): number {
  if (seed !== undefined) readInteger(fn, "seed", seed, 0, Number.MAX_SAFE_INTEGER);
  const p = readNumber(fn, "dropoutP", dropoutP, 0);
  if (p < 0 || p > 1) fail(fn, "dropoutP must be from 0 to 1", String(p));
  if (p > 0 && seed === undefined) {
    throw new TypeError(
      `${fn}: dropoutP needs a seed, a new one for each step, got dropoutP ${p} without one`,
    );
  }
  return p;
}

/** Checks a tensor with one number for each head, or where `perBatch` for each head of each batch. */
function readPerHead(
  core: Core,
  fn: string,
  name: "alibiSlopes" | "sinks",
  value: TensorLike | undefined,
  p: Problem,
  perBatch: boolean,
): Operand | undefined {
  if (value === undefined) return undefined;
  const operand = readOperand(core, fn, name, value);
  const { shape } = operand;
  const fits = shape.length === 1 && shape[0] === p.numHeads;
  if (!fits && !(perBatch && shape.length === 2 && shape[0] === p.batch && shape[1] === p.numHeads)) {
    const forms = perBatch ? `[${p.numHeads}] or [${p.batch}, ${p.numHeads}]` : `[${p.numHeads}]`;
    fail(fn, `${name} must have shape ${forms}, heads of query`, showShape(shape));
  }
  const wrong =
    name === "alibiSlopes" ? core.memory.valuesOf(operand).findIndex((slope) => !Number.isFinite(slope)) : -1;
  if (wrong >= 0)
    fail(fn, "alibiSlopes must be finite", `${core.memory.valuesOf(operand)[wrong]} at ${wrong}`);
  return operand;
}

/** One problem with its operands, checked. */
export interface Inputs {
  readonly p: Problem;
  /** Shape whose batch axes the result has. */
  readonly lead: Shape;
  readonly q: Operand;
  readonly k: Operand;
  readonly v: Operand;
  readonly positions: Positions;
  readonly mask: Mask | undefined;
  readonly alibiSlopes: Operand | undefined;
  readonly sinks: Operand | undefined;
}

/** Checks the operands and SCORE_OPTIONS of one call. */
export function readInputs(
  core: Core,
  fn: string,
  query: TensorLike,
  key: TensorLike,
  value: TensorLike,
  options: AttentionOptions,
): Inputs {
  const q = readOperand(core, fn, "query", query);
  const k = readOperand(core, fn, "key", key);
  const v = readOperand(core, fn, "value", value);
  return inputsOf(core, fn, q, k, v, options);
}

/** The same for operands that are checked; `stored` where key and value are those of a cache. */
export function inputsOf(
  core: Core,
  fn: string,
  q: Operand,
  k: Operand,
  v: Operand,
  options: AttentionOptions,
  stored?: Stored,
): Inputs {
  const lead = leadShape(q.shape, k.shape, v.shape);
  const p = readProblem(fn, q.shape, k.shape, v.shape, lead, options, core.kernels.UNBOUNDED, stored);
  const positions = readPositions(fn, options, p);
  let mask: Mask | undefined;
  if (options.attnMask !== undefined) {
    const keys = p.lk - (stored?.firstKey ?? 0);
    mask = readMask(core, fn, options.attnMask, [...lead.slice(0, -3), p.numHeads, p.lq, keys]);
  }
  const alibiSlopes = readPerHead(core, fn, "alibiSlopes", options.alibiSlopes, p, true);
  const sinks = readPerHead(core, fn, "sinks", options.sinks, p, false);
  return { p, lead, q, k, v, positions, mask, alibiSlopes, sinks };
}

/** The batch axes of `lead`, then the given ones. */
function withLead(lead: Shape, x: number, y: number, z: number): number[] {
  const shape: number[] = [];
  for (let i = 0; i < lead.length - 3; i++) shape.push(lead[i]!);
  shape.push(x, y, z);
  return shape;
}

export function outShape({ p, lead }: Inputs): number[] {
  if (lead.length === 2) return [p.lq, p.dv];
  return p.isBlhd ? withLead(lead, p.lq, p.numHeads, p.dv) : withLead(lead, p.numHeads, p.lq, p.dv);
}

export function lseShape({ p, lead }: Inputs): number[] {
  return lead.length === 2 ? [p.lq] : [...lead.slice(0, -3), p.numHeads, p.lq];
}

/** Throws if `out` shares Wasm memory with what makes the scores beside query and key. */
export function checkScoreAlias(
  fn: string,
  out: Operand | undefined,
  { mask, alibiSlopes, sinks }: Inputs,
): void {
  if (mask?.additive !== undefined) checkAlias(fn, out, "attnMask", mask.additive);
  if (alibiSlopes !== undefined) checkAlias(fn, out, "alibiSlopes", alibiSlopes);
  if (sinks !== undefined) checkAlias(fn, out, "sinks", sinks);
}

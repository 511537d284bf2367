// scaledDotProductAttention: checks the problem, stages it, calls the kernel once.
import { type Mask, readMask, stagedMaskBytes, stageMask } from "./mask.ts";
import { blockBytes } from "./memory.ts";
import { type Problem, writeParams } from "./params.ts";
import { type Positions, readPositions, readWindow, writePositions } from "./positions.ts";
import { readFlag, readLayout, readNumber, readOptions, showShape } from "./shapes.ts";
import { type Core, checkAlias, type Operand, Result, readOperand, readOut, reserve } from "./tensor.ts";
import type { AttentionOptions, AttentionWithLse, Shape, Tensor, TensorLike } from "./types.ts";

const FN = "scaledDotProductAttention";
const OPTIONS: ReadonlySet<string> = new Set([
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
  "layout",
  "returnLse",
  "out",
]);
const NONE: AttentionOptions = {};

function fail(rule: string, got: string): never {
  throw new RangeError(`${FN}: ${rule}, got ${got}`);
}

/** Throws unless the shape has the axes of its layout. */
function checkRank(name: string, shape: Shape, isBlhd: boolean): void {
  if (shape.length >= (isBlhd ? 3 : 2)) return;
  const form = isBlhd
    ? "[..., length, heads, headDim]"
    : "[..., heads, length, headDim] or [length, headDim]";
  fail(`${name} must have shape ${form}`, showShape(shape));
}

/** Batch entries: the product of all axes before the last three. */
function batchOf(shape: Shape): number {
  let batch = 1;
  for (let i = 0; i < shape.length - 3; i++) batch *= shape[i]!;
  return batch;
}

/** Throws unless the leading axes are those of `lead`, or one batch entry serves all. */
function checkBatch(name: string, shape: Shape, batch: number, lead: Shape): void {
  if (batch === 1) return;
  for (let i = 0; i < shape.length - 3; i++) {
    if (shape[i] !== lead[i]) {
      fail(
        `batch axes of ${name} must all be 1 or all be ${showShape(lead.slice(0, -3))}`,
        `${name} ${showShape(shape)}`,
      );
    }
  }
}

function checkEqual(
  rule: string,
  a: number,
  b: number,
  nameA: string,
  shapeA: Shape,
  nameB: string,
  shapeB: Shape,
): void {
  if (a !== b) fail(rule, `${a} and ${b}: ${nameA} ${showShape(shapeA)}, ${nameB} ${showShape(shapeB)}`);
}

/** Shape whose batch axes the result has: the first whose batch is not 1. */
function leadShape(q: Shape, k: Shape, v: Shape): Shape {
  return batchOf(q) !== 1 ? q : batchOf(k) !== 1 ? k : batchOf(v) !== 1 ? v : q;
}

/** Reads the sizes of the three operands, heads third from last (blhd: second from last), 1 at rank 2. */
function readProblem(
  q: Shape,
  k: Shape,
  v: Shape,
  lead: Shape,
  options: AttentionOptions,
  unbounded: number,
): Problem {
  const isCausal = readFlag(FN, "isCausal", options.isCausal);
  const [left, right] = readWindow(FN, options.windowSize, unbounded);
  const isBlhd = readLayout(FN, options.layout);
  checkRank("query", q, isBlhd);
  const rank = q.length;
  if (k.length !== rank || v.length !== rank) {
    fail(
      "query, key and value must have one rank",
      `query ${showShape(q)}, key ${showShape(k)}, value ${showShape(v)}`,
    );
  }
  const head = rank - (isBlhd ? 2 : 3);
  const length = rank - (isBlhd ? 3 : 2);
  const numHeads = rank === 2 ? 1 : q[head]!;
  const numKvHeads = rank === 2 ? 1 : k[head]!;
  const d = q[rank - 1]!;
  if (d === 0) fail("headDim of query must be at least 1", `query ${showShape(q)}`);
  checkEqual("headDim of key must be that of query", k[rank - 1]!, d, "key", k, "query", q);
  checkEqual("length of value must be that of key", v[length]!, k[length]!, "value", v, "key", k);
  if (rank > 2) checkEqual("heads of value must be those of key", v[head]!, numKvHeads, "value", v, "key", k);
  if (numHeads > 0 && (numKvHeads === 0 || numHeads % numKvHeads !== 0)) {
    const rule = "heads of query must be a multiple of those of key";
    checkEqual(rule, numHeads, numKvHeads, "query", q, "key", k);
  }
  const problem = {
    batch: batchOf(lead),
    queryBatch: batchOf(q),
    keyBatch: batchOf(k),
    valueBatch: batchOf(v),
    numHeads,
    numKvHeads,
    lq: q[length]!,
    lk: k[length]!,
    d,
    dv: v[rank - 1]!,
    isBlhd,
    windowLeft: left,
    windowRight: isCausal ? 0 : right,
    scale: readNumber(FN, "scale", options.scale, 1 / Math.sqrt(d)),
    softcap: readSoftcap(options.softcap),
  };
  checkBatch("query", q, problem.queryBatch, lead);
  checkBatch("key", k, problem.keyBatch, lead);
  checkBatch("value", v, problem.valueBatch, lead);
  return problem;
}

function readSoftcap(softcap: unknown): number {
  const value = readNumber(FN, "softcap", softcap, 0);
  if (value < 0 || (value > 0 && Math.fround(value) === 0)) {
    fail("softcap must be a positive float32 number, or 0 for none", String(value));
  }
  return value;
}

/** Checks a tensor with one number for each head, or where `perBatch` for each head of each batch. */
function readPerHead(
  core: Core,
  name: "alibiSlopes" | "sinks",
  value: TensorLike | undefined,
  p: Problem,
  perBatch: boolean,
): Operand | undefined {
  if (value === undefined) return undefined;
  const operand = readOperand(core, FN, name, value);
  const { shape } = operand;
  const fits = shape.length === 1 && shape[0] === p.numHeads;
  if (!fits && !(perBatch && shape.length === 2 && shape[0] === p.batch && shape[1] === p.numHeads)) {
    const forms = perBatch ? `[${p.numHeads}] or [${p.batch}, ${p.numHeads}]` : `[${p.numHeads}]`;
    fail(`${name} must have shape ${forms}, heads of query`, showShape(shape));
  }
  const wrong =
    name === "alibiSlopes" ? core.memory.valuesOf(operand).findIndex((slope) => !Number.isFinite(slope)) : -1;
  if (wrong >= 0) fail("alibiSlopes must be finite", `${core.memory.valuesOf(operand)[wrong]} at ${wrong}`);
  return operand;
}

/** The batch axes of `lead`, then the given ones. */
function withLead(lead: Shape, x: number, y: number, z: number): number[] {
  const shape: number[] = [];
  for (let i = 0; i < lead.length - 3; i++) shape.push(lead[i]!);
  shape.push(x, y, z);
  return shape;
}

function outShape(p: Problem, lead: Shape): number[] {
  if (lead.length === 2) return [p.lq, p.dv];
  return p.isBlhd ? withLead(lead, p.lq, p.numHeads, p.dv) : withLead(lead, p.numHeads, p.lq, p.dv);
}

function lseShape(p: Problem, lead: Shape): number[] {
  return lead.length === 2 ? [p.lq] : [...lead.slice(0, -3), p.numHeads, p.lq];
}

/** The operands and results of one call, checked. */
interface Call {
  q: Operand;
  k: Operand;
  v: Operand;
  positions: Positions;
  mask: Mask | undefined;
  alibiSlopes: Operand | undefined;
  sinks: Operand | undefined;
  result: Result;
  lse: Result | undefined;
}

/** Results of the call: the output, and the log-sum-exp where it is asked for. */
function makeResults(
  core: Core,
  p: Problem,
  lead: Shape,
  out: Operand | undefined,
  options: AttentionOptions,
  resident: boolean,
): [Result, Result | undefined] {
  const returnLse = readFlag(FN, "returnLse", options.returnLse);
  const result = new Result(core, FN, outShape(p, lead), out, options.out, resident);
  if (!returnLse) return [result, undefined];
  try {
    return [result, new Result(core, FN, lseShape(p, lead), undefined, undefined, resident)];
  } catch (error) {
    result.abandon();
    throw error;
  }
}

/** What the caller gets, once the kernel has written to the addresses. */
function finish({ result, lse }: Call, outAddress: number, lseAddress: number): Tensor | AttentionWithLse {
  const out = result.finish(outAddress);
  return lse === undefined ? out : { out, lse: lse.finish(lseAddress) };
}

/** Copies in what does not live in Wasm memory, and runs the kernel. */
function run(core: Core, p: Problem, call: Call): Tensor | AttentionWithLse {
  const { kernels, memory } = core;
  const { q, k, v, positions, mask, alibiSlopes, sinks, result, lse } = call;
  if (result.size === 0 && (lse === undefined || lse.size === 0)) return finish(call, 0, 0);
  const scratchBytes = kernels.attentionScratchBytes(p.numHeads, p.numKvHeads, p.lq, p.d, p.dv);
  const operandBytes =
    memory.stagedBytes(q) + memory.stagedBytes(k) + memory.stagedBytes(v) + stagedMaskBytes(core, mask);
  const perHeadBytes =
    (alibiSlopes === undefined ? 0 : memory.stagedBytes(alibiSlopes)) +
    (sinks === undefined ? 0 : memory.stagedBytes(sinks));
  const resultBytes = result.stagedBytes + (lse === undefined ? 0 : lse.stagedBytes);
  const ownBytes = 2 * blockBytes(p.batch * 4) + blockBytes(kernels.paramsSize) + blockBytes(scratchBytes);
  reserve(core, FN, operandBytes + perHeadBytes + resultBytes + ownBytes, result, lse);

  const to = {
    query: memory.stageOperand(q),
    key: memory.stageOperand(k),
    value: memory.stageOperand(v),
    mask: stageMask(core, mask),
    out: result.stage(),
    lse: lse === undefined ? 0 : lse.stage(),
    queryOffsets: memory.stage(p.batch * 4),
    kvLengths: memory.stage(p.batch * 4),
    alibiSlopes: alibiSlopes === undefined ? 0 : memory.stageOperand(alibiSlopes),
    sinks: sinks === undefined ? 0 : memory.stageOperand(sinks),
    scratch: memory.stage(scratchBytes),
  };
  writePositions(core, positions, p, to.queryOffsets, to.kvLengths);
  const address = memory.stage(kernels.paramsSize);
  writeParams(core, address, p, to, mask, alibiSlopes?.shape.length === 2 ? p.numHeads : 0);
  kernels.attention(address, 0, kernels.attentionWorkItems(p.batch, p.numHeads, p.numKvHeads, p.lq));
  return finish(call, to.out, to.lse);
}

export function scaledDotProductAttention(
  core: Core,
  query: TensorLike,
  key: TensorLike,
  value: TensorLike,
  given: AttentionOptions = NONE,
): Tensor | AttentionWithLse {
  const options = given === NONE ? NONE : readOptions(FN, given, OPTIONS);
  const q = readOperand(core, FN, "query", query);
  const k = readOperand(core, FN, "key", key);
  const v = readOperand(core, FN, "value", value);
  const lead = leadShape(q.shape, k.shape, v.shape);
  const p = readProblem(q.shape, k.shape, v.shape, lead, options, core.kernels.UNBOUNDED);
  const positions = readPositions(FN, options, p);
  let mask: Mask | undefined;
  if (options.attnMask !== undefined) {
    mask = readMask(core, FN, options.attnMask, [...lead.slice(0, -3), p.numHeads, p.lq, p.lk]);
  }
  const alibiSlopes = readPerHead(core, "alibiSlopes", options.alibiSlopes, p, true);
  const sinks = readPerHead(core, "sinks", options.sinks, p, false);
  let out: Operand | undefined;
  if (options.out !== undefined) {
    out = readOut(core, FN, options.out, outShape(p, lead));
    checkAlias(FN, out, "query", q);
    checkAlias(FN, out, "key", k);
    checkAlias(FN, out, "value", v);
    if (mask?.additive !== undefined) checkAlias(FN, out, "attnMask", mask.additive);
    if (alibiSlopes !== undefined) checkAlias(FN, out, "alibiSlopes", alibiSlopes);
    if (sinks !== undefined) checkAlias(FN, out, "sinks", sinks);
  }
  const [result, lse] = makeResults(core, p, lead, out, options, q.resident && k.resident && v.resident);
  return run(core, p, { q, k, v, positions, mask, alibiSlopes, sinks, result, lse });
}

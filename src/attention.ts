// scaledDotProductAttention: checks the problem, stages it, calls the kernel once.
import { type Mask, readMask } from "./mask.ts";
import { blockBytes } from "./memory.ts";
import { type Strides, writeParams } from "./params.ts";
import { MAX_AXIS, checkOptions, describe, readFlag, readNumber, sameShape, showShape, sizeOf } from "./shapes.ts";
import { type Core, type Operand, Result, checkAlias, readOperand, readOut, reserve } from "./tensor.ts";
import type { AttentionOptions, AttentionWithLse, Layout, Shape, Tensor, TensorLike } from "./types.ts";

const FN = "scaledDotProductAttention";
const OPTIONS: ReadonlySet<string> = new Set([
  "attnMask", "isCausal", "scale", "queryOffset", "causalAlignment", "kvLengths", "layout", "returnLse", "out",
]);
const NONE: AttentionOptions = {};

/** One operand read as [batch, heads, length, width]. */
interface Heads {
  lead: Shape;
  batch: number;
  heads: number;
  length: number;
  width: number;
}

/** The sizes of one call. */
interface Problem {
  query: Heads;
  key: Heads;
  value: Heads;
  /** Leading axes of the result, and their product. */
  lead: Shape;
  batch: number;
  layout: Layout;
  rank: number;
}

function readLayout(layout: unknown): Layout {
  if (layout === undefined) return "bhld";
  if (layout !== "bhld" && layout !== "blhd") {
    throw new TypeError(`${FN}: layout must be "bhld" or "blhd", got ${describe(layout)}`);
  }
  return layout;
}

/** Splits a shape; heads are third from last in "bhld" (1 at rank 2), second from last in "blhd". */
function asHeads(name: string, shape: Shape, layout: Layout): Heads {
  const rank = shape.length;
  const least = layout === "blhd" ? 3 : 2;
  if (rank < least) {
    const form = layout === "blhd" ? "[..., length, heads, headDim]" : "[..., heads, length, headDim] or [length, headDim]";
    throw new RangeError(`${FN}: ${name} must have shape ${form}, got ${showShape(shape)}`);
  }
  const lead = shape.slice(0, Math.max(rank - 3, 0));
  const outer = rank === 2 ? 1 : shape[rank - 3]!;
  const inner = shape[rank - 2]!;
  const [heads, length] = layout === "bhld" ? [outer, inner] : [inner, outer];
  return { lead, batch: sizeOf(lead), heads: heads!, length: length!, width: shape[rank - 1]! };
}

/** Element strides of a contiguous operand; a batch of one serves every batch. */
function stridesOf({ heads, length, width, batch }: Heads, layout: Layout): Strides {
  const whole = batch === 1 ? 0 : heads * length * width;
  return layout === "bhld"
    ? { batch: whole, head: length * width, row: width }
    : { batch: whole, head: width, row: heads * width };
}

function fail(rule: string, got: string): never {
  throw new RangeError(`${FN}: ${rule}, got ${got}`);
}

function readProblem(q: Operand, k: Operand, v: Operand, layout: Layout): Problem {
  const query = asHeads("query", q.shape, layout);
  const key = asHeads("key", k.shape, layout);
  const value = asHeads("value", v.shape, layout);
  const shapes = (a: string, x: Shape, b: string, y: Shape) => `${a} ${showShape(x)} and ${b} ${showShape(y)}`;
  if (k.shape.length !== q.shape.length || v.shape.length !== q.shape.length) {
    fail("query, key and value must have one rank", `query ${showShape(q.shape)}, key ${showShape(k.shape)}, value ${showShape(v.shape)}`);
  }
  if (query.width === 0) fail("headDim of query must be at least 1", `query ${showShape(q.shape)}`);
  if (key.width !== query.width) {
    fail("headDim of key must be that of query", `${key.width} and ${query.width}: ${shapes("key", k.shape, "query", q.shape)}`);
  }
  if (value.length !== key.length) {
    fail("length of value must be that of key", `${value.length} and ${key.length}: ${shapes("value", v.shape, "key", k.shape)}`);
  }
  if (value.heads !== key.heads) {
    fail("heads of value must be those of key", `${value.heads} and ${key.heads}: ${shapes("value", v.shape, "key", k.shape)}`);
  }
  if (query.heads > 0 && (key.heads === 0 || query.heads % key.heads !== 0)) {
    fail("heads of query must be a multiple of those of key", `${query.heads} and ${key.heads}: ${shapes("query", q.shape, "key", k.shape)}`);
  }
  const lead = [query, key, value].reduce((found, { lead }) => (sizeOf(found) === 1 ? lead : found), query.lead);
  for (const [name, heads, operand] of [["query", query, q], ["key", key, k], ["value", value, v]] as const) {
    if (heads.batch !== 1 && !sameShape(heads.lead, lead)) {
      fail(`batch axes of ${name} must all be 1 or all be ${showShape(lead)}`, `${name} ${showShape(operand.shape)}`);
    }
  }
  return { query, key, value, lead, batch: sizeOf(lead), layout, rank: q.shape.length };
}

/** [...batch, heads, length, width] in the layout; without heads at rank 2. */
function joinShape(p: Problem, length: number, width: number): number[] {
  if (p.rank === 2) return [length, width];
  const { heads } = p.query;
  return p.layout === "bhld" ? [...p.lead, heads, length, width] : [...p.lead, length, heads, width];
}

function isInt32Array(value: unknown): value is Int32Array {
  return ArrayBuffer.isView(value) && Object.prototype.toString.call(value) === "[object Int32Array]";
}

/** Checks an Int32Array with one entry for each batch. */
function checkPerBatch(name: string, value: unknown, batch: number): asserts value is Int32Array {
  if (!isInt32Array(value)) throw new TypeError(`${FN}: ${name} must be an Int32Array, got ${describe(value)}`);
  if (value.length !== batch) fail(`${name} must hold one entry for each of ${batch} batches`, String(value.length));
}

function checkKvLengths(value: unknown, batch: number, lk: number): Int32Array | undefined {
  if (value === undefined) return undefined;
  checkPerBatch("kvLengths", value, batch);
  const wrong = value.findIndex((length) => length < 0 || length > lk);
  if (wrong >= 0) fail(`kvLengths must be from 0 to the key length ${lk}`, `${value[wrong]} at batch ${wrong}`);
  return value;
}

/** How the position of query 0 in a batch is found. */
type Positions = (b: number, kvLength: number) => number;

function readPositions(options: AttentionOptions, batch: number, lq: number): Positions {
  const { queryOffset, causalAlignment } = options;
  if (causalAlignment !== undefined && causalAlignment !== "topLeft" && causalAlignment !== "bottomRight") {
    throw new TypeError(`${FN}: causalAlignment must be "topLeft" or "bottomRight", got ${describe(causalAlignment)}`);
  }
  if (queryOffset === undefined) return causalAlignment === "bottomRight" ? (_, kvLength) => kvLength - lq : () => 0;
  if (causalAlignment !== undefined) {
    throw new TypeError(`${FN}: queryOffset and causalAlignment both set the position, got ${describe(queryOffset)} and "${causalAlignment}"`);
  }
  if (typeof queryOffset === "number") {
    if (!Number.isInteger(queryOffset)) fail("queryOffset must be an integer", String(queryOffset));
    return () => queryOffset;
  }
  checkPerBatch("queryOffset", queryOffset, batch);
  return (b) => queryOffset[b]!;
}

/** Writes positions and valid lengths, one int32 pair of arrays, and returns their addresses. */
function stagePositions(core: Core, p: Problem, positions: Positions, kvLengths: Int32Array | undefined): [offsets: number, lengths: number] {
  const { memory } = core;
  const offsets = memory.stage(p.batch * 4);
  const lengths = memory.stage(p.batch * 4);
  for (let b = 0; b < p.batch; b++) {
    const kvLength = kvLengths?.[b] ?? p.key.length;
    // A position beyond the longest axis on either side sees what one at that bound sees.
    memory.i32[(offsets >>> 2) + b] = Math.max(-MAX_AXIS, Math.min(MAX_AXIS, positions(b, kvLength)));
    memory.i32[(lengths >>> 2) + b] = kvLength;
  }
  return [offsets, lengths];
}

function stageMask(core: Core, mask: Mask | undefined): number {
  if (mask === undefined) return 0;
  if (mask.additive !== undefined) return core.memory.stageOperand(mask.additive);
  const bytes = mask.bytes!;
  const address = core.memory.stage(bytes.length);
  if (ArrayBuffer.isView(bytes)) core.memory.u8.set(bytes as ArrayLike<number>, address);
  else for (let i = 0; i < bytes.length; i++) core.memory.u8[address + i] = bytes[i] ? 1 : 0;
  return address;
}

/** Bytes of arena for the mask. */
function maskBytes(core: Core, mask: Mask | undefined): number {
  if (mask === undefined) return 0;
  return mask.additive === undefined ? blockBytes(mask.bytes!.length) : core.memory.stagedBytes(mask.additive);
}

export function scaledDotProductAttention(
  core: Core, query: TensorLike, key: TensorLike, value: TensorLike, options: AttentionOptions = NONE,
): Tensor | AttentionWithLse {
  if (options !== NONE) checkOptions(FN, options, OPTIONS);
  const q = readOperand(core, FN, "query", query);
  const k = readOperand(core, FN, "key", key);
  const v = readOperand(core, FN, "value", value);
  const p = readProblem(q, k, v, readLayout(options.layout));
  const isCausal = readFlag(FN, "isCausal", options.isCausal);
  const returnLse = readFlag(FN, "returnLse", options.returnLse);
  const scale = readNumber(FN, "scale", options.scale, 1 / Math.sqrt(p.query.width));
  const kvLengths = checkKvLengths(options.kvLengths, p.batch, p.key.length);
  const positions = readPositions(options, p.batch, p.query.length);
  const lseShape = p.rank === 2 ? [p.query.length] : [...p.lead, p.query.heads, p.query.length];
  const target = [...p.lead, p.query.heads, p.query.length, p.key.length];
  const mask = options.attnMask === undefined ? undefined : readMask(core, FN, options.attnMask, target);
  const shape = joinShape(p, p.query.length, p.value.width);
  const out = readOut(core, FN, options.out, shape);
  checkAlias(FN, out, "query", q);
  checkAlias(FN, out, "key", k);
  checkAlias(FN, out, "value", v);
  if (mask?.additive !== undefined) checkAlias(FN, out, "attnMask", mask.additive);

  const resident = q.resident && k.resident && v.resident;
  const result = new Result(core, FN, shape, out, options.out, resident);
  let lse: Result | undefined;
  try {
    if (returnLse) lse = new Result(core, FN, lseShape, undefined, undefined, resident);
  } catch (error) {
    result.abandon();
    throw error;
  }
  const { kernels, memory } = core;
  const scratchBytes = kernels.attentionScratchBytes(p.query.heads, p.key.heads, p.query.length, p.query.width, p.value.width) >>> 0;
  const bytes =
    memory.stagedBytes(q) + memory.stagedBytes(k) + memory.stagedBytes(v) + maskBytes(core, mask) +
    result.stagedBytes + (lse?.stagedBytes ?? 0) + 2 * blockBytes(p.batch * 4) +
    blockBytes(kernels.paramsSize.value) + blockBytes(scratchBytes);
  reserve(core, FN, bytes, result, lse);

  const [queryOffsets, lengths] = stagePositions(core, p, positions, kvLengths);
  const outAddress = result.stage();
  const lseAddress = lse?.stage() ?? 0;
  const address = memory.stage(kernels.paramsSize.value);
  writeParams(core, address, {
    query: memory.stageOperand(q),
    key: memory.stageOperand(k),
    value: memory.stageOperand(v),
    out: outAddress,
    lse: lseAddress,
    mask: stageMask(core, mask),
    queryOffsets,
    kvLengths: lengths,
    scratch: memory.stage(scratchBytes),
    numHeads: p.query.heads,
    numKvHeads: p.key.heads,
    lq: p.query.length,
    lk: p.key.length,
    d: p.query.width,
    dv: p.value.width,
    queryStrides: stridesOf(p.query, p.layout),
    keyStrides: stridesOf(p.key, p.layout),
    valueStrides: stridesOf(p.value, p.layout),
    outStrides: stridesOf({ ...p.query, batch: p.batch, width: p.value.width }, p.layout),
    maskKind: (mask === undefined ? kernels.MASK_NONE : mask.additive === undefined ? kernels.MASK_BOOLEAN : kernels.MASK_ADDITIVE).value,
    maskStrides: mask?.strides ?? { batch: 0, head: 0, row: 0, column: 0 },
    windowLeft: kernels.UNBOUNDED.value,
    windowRight: isCausal ? 0 : kernels.UNBOUNDED.value,
    scale,
  });
  const items = kernels.attentionWorkItems(p.batch, p.query.heads, p.key.heads, p.query.length);
  kernels.attention(address, 0, items);
  const finished = result.finish(outAddress);
  return lse === undefined ? finished : { out: finished, lse: lse.finish(lseAddress) };
}

// rotaryEmbedding, and the tables of cosines and sines it takes.
import { blockBytes } from "./memory.ts";
import {
  describe,
  MAX_AXIS,
  readFlag,
  readLayout,
  readOptions,
  sameShape,
  showShape,
  sizeOf,
} from "./shapes.ts";
import { type Core, checkAlias, type Operand, Result, readOperand, readOut, reserve } from "./tensor.ts";
import type { RotaryOptions, RotaryTables, RotaryTablesOptions, Tensor, TensorLike } from "./types.ts";

const FN = "rotaryEmbedding";
const OPTIONS: ReadonlySet<string> = new Set([
  "positionIds",
  "positionOffset",
  "interleaved",
  "rotaryDim",
  "layout",
  "out",
]);
const TABLES_FN = "rotaryTables";
const TABLES_OPTIONS: ReadonlySet<string> = new Set(["base", "offset"]);

/** x as rows of d: [...batch, heads, length, d] or, blhd, [...batch, length, heads, d]. */
interface Rows {
  batchShape: number[];
  batch: number;
  heads: number;
  length: number;
  d: number;
  isBlhd: boolean;
}

function readRows(x: Operand, isBlhd: boolean): Rows {
  const rank = x.shape.length;
  if (rank < (isBlhd ? 3 : 2)) {
    const wanted = isBlhd
      ? "[..., length, heads, headDim]"
      : "[..., heads, length, headDim] or [length, headDim]";
    throw new RangeError(`${FN}: x must have shape ${wanted}, got ${showShape(x.shape)}`);
  }
  const d = x.shape[rank - 1]!;
  const [first, second] = [x.shape[rank - 3] ?? 1, x.shape[rank - 2]!];
  const batchShape = x.shape.slice(0, Math.max(0, rank - 3));
  const [heads, length] = isBlhd ? [second, first] : [first, second];
  return { batchShape, batch: sizeOf(batchShape), heads, length, d, isBlhd };
}

/** An even number of elements, by default all of a row. */
function readRotaryDim(value: unknown, d: number): number {
  const dim = value === undefined ? d : value;
  if (typeof dim !== "number")
    throw new TypeError(`${FN}: rotaryDim must be an even integer, got ${describe(dim)}`);
  if (!Number.isInteger(dim) || dim % 2 !== 0 || dim < 2 || dim > d) {
    throw new RangeError(
      `${FN}: rotaryDim${value === undefined ? ", the headDim of x by default," : ""} must be an even integer from 2 to ` +
        `the headDim ${d} of x, got ${dim}`,
    );
  }
  return dim;
}

/** Checks cos and sin. True where they have a row for each token, false where they are tables by position. */
function checkTables(cos: Operand, sin: Operand, rows: Rows, half: number): boolean {
  const perToken = [...rows.batchShape, rows.length, half];
  const isTable = cos.shape.length === 2 && cos.shape[1] === half;
  if (!isTable && !sameShape(cos.shape, perToken)) {
    throw new RangeError(
      `${FN}: cos.shape must be [positions, ${half}] or ${showShape(perToken)}, half of rotaryDim wide, got ` +
        showShape(cos.shape),
    );
  }
  if (!sameShape(sin.shape, cos.shape)) {
    throw new RangeError(
      `${FN}: sin.shape must be that of cos ${showShape(cos.shape)}, got ${showShape(sin.shape)}`,
    );
  }
  return !isTable;
}

/** The row of cos and sin for each token, and how many of them each batch entry has of its own: length, or 0. */
interface Positions {
  rows: Int32Array;
  stride: number;
}

function readIds(value: unknown, { batch, length }: Rows, count: number): Positions {
  if (!ArrayBuffer.isView(value) || Object.prototype.toString.call(value) !== "[object Int32Array]") {
    throw new TypeError(`${FN}: positionIds must be an Int32Array, got ${describe(value)}`);
  }
  const ids = (value as Int32Array).slice(); // no view is read after memory has grown
  if (ids.length !== length && ids.length !== batch * length) {
    throw new RangeError(
      `${FN}: positionIds must hold one entry for each of ${length} tokens, or of ${batch} times as many, got ${ids.length}`,
    );
  }
  const wrong = ids.findIndex((id) => id < 0 || id >= count);
  if (wrong >= 0) {
    throw new RangeError(
      `${FN}: positionIds must be from 0 to ${count - 1}, the rows of cos, got ${ids[wrong]} at ${wrong}`,
    );
  }
  return { rows: ids, stride: ids.length === length ? 0 : length };
}

function readOffset(value: unknown, length: number, count: number): Positions {
  const offset = value === undefined ? 0 : value;
  if (typeof offset !== "number")
    throw new TypeError(`${FN}: positionOffset must be an integer, got ${describe(offset)}`);
  if (!Number.isInteger(offset) || offset < 0 || offset + length > count) {
    throw new RangeError(
      `${FN}: positionOffset must be an integer of 0 or more, and with ${length} tokens at most the ${count} rows of ` +
        `cos, got ${offset}`,
    );
  }
  return { rows: Int32Array.from({ length }, (_, i) => offset + i), stride: 0 };
}

function readPositions(options: RotaryOptions, rows: Rows, isPerToken: boolean, count: number): Positions {
  const { positionIds, positionOffset } = options;
  if (positionIds !== undefined && positionOffset !== undefined) {
    throw new TypeError(`${FN}: positionIds and positionOffset both set the position; leave out one`);
  }
  if (isPerToken) {
    const given = positionIds === undefined ? positionOffset : positionIds;
    if (given !== undefined) {
      throw new TypeError(
        `${FN}: cos and sin of each token take no position${positionIds === undefined ? "Offset" : "Ids"}, got ` +
          describe(given),
      );
    }
    return { rows: Int32Array.from({ length: rows.batch * rows.length }, (_, i) => i), stride: rows.length };
  }
  return positionIds === undefined
    ? readOffset(positionOffset, rows.length, count)
    : readIds(positionIds, rows, count);
}

/** `count` rows of a table from `first` on: a table of all positions need not be copied in for one token. */
function rowsOf(table: Operand, first: number, count: number): Operand {
  const width = table.shape[table.shape.length - 1]!;
  const size = count * width;
  const data = table.address < 0 ? table.data.subarray(first * width, first * width + size) : table.data;
  const address = table.address < 0 ? -1 : table.address + first * width * 4;
  return { ...table, data, size, address };
}

interface Problem {
  x: Operand;
  cos: Operand;
  sin: Operand;
  rows: Rows;
  half: number;
  interleaved: boolean;
  positions: Positions;
}

/** Copies in what does not live in Wasm memory, runs the kernel, and gives what the caller gets. */
function run(core: Core, problem: Problem, result: Result): Tensor {
  const { memory, kernels } = core;
  const { x, rows, half, interleaved, positions } = problem;
  const { batch, heads, length, d, isBlhd } = rows;
  if (x.size === 0) return result.finish(0);
  const first = positions.rows.reduce((a, b) => Math.min(a, b), positions.rows[0]!);
  const last = positions.rows.reduce((a, b) => Math.max(a, b), first);
  const cos = rowsOf(problem.cos, first, last - first + 1);
  const sin = rowsOf(problem.sin, first, last - first + 1);
  const positionBytes = positions.rows.length * 4;
  const bytes = memory.stagedBytes(x) + memory.stagedBytes(cos) + memory.stagedBytes(sin);
  reserve(core, FN, bytes + result.stagedBytes + blockBytes(positionBytes), result);
  const from = memory.stageOperand(x);
  const cosAt = memory.stageOperand(cos);
  const sinAt = memory.stageOperand(sin);
  const to = result.stage();
  const at = memory.stage(positionBytes);
  positions.rows.forEach((row, i) => {
    memory.i32[(at >>> 2) + i] = row - first;
  });
  kernels.rotary(
    interleaved ? 1 : 0,
    isBlhd ? heads : 1,
    length,
    heads * length,
    d,
    half,
    from,
    cosAt,
    sinAt,
    at,
    positions.stride,
    to,
    0,
    batch * heads * length,
  );
  return result.finish(to);
}

function checkTableSizes(length: number, rotaryDim: number, base: number, offset: number): void {
  if (!Number.isInteger(length) || length < 0 || length > MAX_AXIS) {
    throw new (typeof length === "number" ? RangeError : TypeError)(
      `${TABLES_FN}: length must be an integer from 0 to ${MAX_AXIS}, got ${describe(length)}`,
    );
  }
  if (!Number.isInteger(rotaryDim) || rotaryDim % 2 !== 0 || rotaryDim < 2 || rotaryDim > MAX_AXIS) {
    throw new (typeof rotaryDim === "number" ? RangeError : TypeError)(
      `${TABLES_FN}: rotaryDim must be an even integer from 2 to ${MAX_AXIS}, got ${describe(rotaryDim)}`,
    );
  }
  if (typeof base !== "number" || !(base > 0 && base < Infinity)) {
    throw new (typeof base === "number" ? RangeError : TypeError)(
      `${TABLES_FN}: base must be a positive number, got ${describe(base)}`,
    );
  }
  if (!Number.isSafeInteger(offset)) {
    throw new (typeof offset === "number" ? RangeError : TypeError)(
      `${TABLES_FN}: offset must be an integer, got ${describe(offset)}`,
    );
  }
}

export function rotaryEmbedding(
  core: Core,
  value: TensorLike,
  cosine: TensorLike,
  sine: TensorLike,
  given: RotaryOptions = {},
): Tensor {
  const options = readOptions(FN, given, OPTIONS);
  const x = readOperand(core, FN, "x", value);
  const cos = readOperand(core, FN, "cos", cosine);
  const sin = readOperand(core, FN, "sin", sine);
  const rows = readRows(x, readLayout(FN, options.layout));
  const half = readRotaryDim(options.rotaryDim, rows.d) / 2;
  const interleaved = readFlag(FN, "interleaved", options.interleaved);
  const isPerToken = checkTables(cos, sin, rows, half);
  const positions = readPositions(options, rows, isPerToken, sizeOf(cos.shape.slice(0, -1)));
  const out = readOut(core, FN, options.out, x.shape);
  checkAlias(FN, out, "x", x, true);
  checkAlias(FN, out, "cos", cos);
  checkAlias(FN, out, "sin", sin);
  const resident = x.resident && cos.resident && sin.resident;
  const result = new Result(core, FN, [...x.shape], out, options.out, resident);
  return run(core, { x, cos, sin, rows, half, interleaved, positions }, result);
}

/**
 * Cosines and sines of positions offset .. offset + length - 1, each [length, rotaryDim / 2]: the angle of pair j at
 * position p is p * base ** (-2 j / rotaryDim), computed in float64.
 */
export function rotaryTables(
  length: number,
  rotaryDim: number,
  given: RotaryTablesOptions = {},
): RotaryTables {
  const { base = 10000, offset = 0 } = readOptions(TABLES_FN, given, TABLES_OPTIONS);
  checkTableSizes(length, rotaryDim, base, offset);
  const half = rotaryDim / 2;
  const frequencies = Float64Array.from({ length: half }, (_, j) => base ** ((-2 * j) / rotaryDim));
  const cos = new Float32Array(length * half);
  const sin = new Float32Array(length * half);
  for (let i = 0; i < length; i++) {
    for (let j = 0; j < half; j++) {
      const angle = (offset + i) * frequencies[j]!;
      cos[i * half + j] = Math.cos(angle);
      sin[i * half + j] = Math.sin(angle);
    }
  }
  return { cos: { data: cos, shape: [length, half] }, sin: { data: sin, shape: [length, half] } };
}

// What rotates: x read as rows, the tables and the row of them that each token reads. Checked, staged and run here for
// rotaryEmbedding and for the heads of multiHeadAttention.
import { blockBytes } from "./memory.ts";
import {
  checkRank,
  describe,
  fail,
  readFlag,
  readInt32Array,
  readInteger,
  readLayout,
  refuseNumber,
  sameShape,
  showShape,
  sizeOf,
} from "./shapes.ts";
import { type Core, type Operand, readOperand } from "./tensor.ts";
import type { RotaryOptions } from "./types/layers.ts";
import type { Shape, TensorLike } from "./types/tensor.ts";

/** The options that say how x turns. */
type Turning = Omit<RotaryOptions, "out">;

/** x as rows of d: [...batch, heads, length, d] or, blhd, [...batch, length, heads, d]. */
export interface Rows {
  batchShape: number[];
  batch: number;
  heads: number;
  length: number;
  d: number;
  isBlhd: boolean;
}

function readRows(fn: string, x: Shape, isBlhd: boolean): Rows {
  checkRank(fn, "x", x, isBlhd);
  const rank = x.length;
  const d = x[rank - 1]!;
  const [first, second] = [x[rank - 3] ?? 1, x[rank - 2]!];
  const batchShape = x.slice(0, Math.max(0, rank - 3));
  const [heads, length] = isBlhd ? [second, first] : [first, second];
  return { batchShape, batch: sizeOf(batchShape), heads, length, d, isBlhd };
}

/** An even number of elements, by default all of a row. */
function readRotaryDim(fn: string, value: unknown, d: number): number {
  const dim = value === undefined ? d : value;
  if (!Number.isInteger(dim) || (dim as number) % 2 !== 0 || (dim as number) < 2 || (dim as number) > d) {
    const name = value === undefined ? "rotaryDim, the headDim of x by default," : "rotaryDim";
    refuseNumber(fn, name, `an even integer from 2 to the headDim ${d} of x`, dim);
  }
  return dim as number;
}

/** Checks cos and sin. True where they have a row for each token, false where they are tables by position. */
function checkTables(fn: string, cos: Operand, sin: Operand, rows: Rows, half: number): boolean {
  const perToken = [...rows.batchShape, rows.length, half];
  const isTable = cos.shape.length === 2 && cos.shape[1] === half;
  if (!isTable && !sameShape(cos.shape, perToken)) {
    throw new RangeError(
      `${fn}: cos.shape must be [positions, ${half}] or ${showShape(perToken)}, half of rotaryDim wide, got ` +
        showShape(cos.shape),
    );
  }
  if (!sameShape(sin.shape, cos.shape)) {
    throw new RangeError(
      `${fn}: sin.shape must be that of cos ${showShape(cos.shape)}, got ${showShape(sin.shape)}`,
    );
  }
  return !isTable;
}

/** The row of cos and sin for each token, and how many of them each batch entry has of its own: length, or 0. */
export interface TableRows {
  rows: Int32Array;
  stride: number;
}

function readIds(fn: string, value: unknown, { batch, length }: Rows, count: number): TableRows {
  const ids = readInt32Array(fn, "positionIds", value);
  if (ids.length !== length && ids.length !== batch * length) {
    throw new RangeError(
      `${fn}: positionIds must hold one entry for each of ${length} tokens, or of ${batch} times as many, got ${ids.length}`,
    );
  }
  const wrong = ids.findIndex((id) => id < 0 || id >= count);
  if (wrong >= 0) {
    throw new RangeError(
      `${fn}: positionIds must be from 0 to ${count - 1}, the rows of cos, got ${ids[wrong]} at ${wrong}`,
    );
  }
  return { rows: ids, stride: ids.length === length ? 0 : length };
}

function readOffset(fn: string, value: unknown, length: number, count: number): TableRows {
  const offset = value === undefined ? 0 : value;
  const first = readInteger(fn, "positionOffset", offset, 0);
  if (first + length > count) {
    fail(fn, `positionOffset + ${length} tokens must be at most the ${count} rows of cos`, String(first));
  }
  return { rows: Int32Array.from({ length }, (_, i) => first + i), stride: 0 };
}

function readTableRows(
  fn: string,
  options: Turning,
  rows: Rows,
  isPerToken: boolean,
  count: number,
): TableRows {
  const { positionIds, positionOffset } = options;
  if (positionIds !== undefined && positionOffset !== undefined) {
    throw new TypeError(`${fn}: positionIds and positionOffset both set the position; leave out one`);
  }
  if (isPerToken) {
    const given = positionIds === undefined ? positionOffset : positionIds;
    if (given !== undefined) {
      throw new TypeError(
        `${fn}: cos and sin of each token take no position${positionIds === undefined ? "Offset" : "Ids"}, got ` +
          describe(given),
      );
    }
    return { rows: Int32Array.from({ length: rows.batch * rows.length }, (_, i) => i), stride: rows.length };
  }
  return positionIds === undefined
    ? readOffset(fn, positionOffset, rows.length, count)
    : readIds(fn, positionIds, rows, count);
}

/** `count` rows of a table from `first` on: a table of all positions need not be copied in for one token. */
function rowsOf(table: Operand, first: number, count: number): Operand {
  const width = table.shape[table.shape.length - 1]!;
  const size = count * width;
  const data = table.address < 0 ? table.data.subarray(first * width, first * width + size) : table.data;
  const address = table.address < 0 ? -1 : table.address + first * width * 4;
  return { ...table, data, size, address };
}

/** One checked problem. */
export interface Rotation {
  /** The tables, or a row for each token. */
  cos: Operand;
  sin: Operand;
  rows: Rows;
  half: number;
  interleaved: boolean;
  positions: TableRows;
}

export function readRotation(
  core: Core,
  fn: string,
  x: Shape,
  cosine: TensorLike,
  sine: TensorLike,
  options: Turning,
): Rotation {
  const cos = readOperand(core, fn, "cos", cosine);
  const sin = readOperand(core, fn, "sin", sine);
  const rows = readRows(fn, x, readLayout(fn, options.layout));
  const half = readRotaryDim(fn, options.rotaryDim, rows.d) / 2;
  const interleaved = readFlag(fn, "interleaved", options.interleaved);
  const isPerToken = checkTables(fn, cos, sin, rows, half);
  const positions = readTableRows(fn, options, rows, isPerToken, sizeOf(cos.shape.slice(0, -1)));
  return { cos, sin, rows, half, interleaved, positions };
}

/** The rows in use alone, their first being position 0, for a problem with rows. */
export function narrowed({ positions, ...rotation }: Rotation): Rotation {
  const first = positions.rows.reduce((a, b) => Math.min(a, b), positions.rows[0]!);
  const last = positions.rows.reduce((a, b) => Math.max(a, b), first);
  return {
    ...rotation,
    cos: rowsOf(rotation.cos, first, last - first + 1),
    sin: rowsOf(rotation.sin, first, last - first + 1),
    positions: { ...positions, rows: positions.rows.map((row) => row - first) },
  };
}

/** Addresses of the tables and of the row that each token reads. */
export interface Turns {
  cos: number;
  sin: number;
  positions: number;
}

/** Bytes of arena for the tables and positions. */
export function turnBytes({ memory }: Core, { cos, sin, positions }: Rotation): number {
  return memory.stagedBytes(cos) + memory.stagedBytes(sin) + blockBytes(positions.rows.length * 4);
}

export function stageTurns({ memory }: Core, { cos, sin, positions }: Rotation): Turns {
  const at = {
    cos: memory.stageOperand(cos),
    sin: memory.stageOperand(sin),
    positions: memory.stage(positions.rows.length * 4),
  };
  memory.i32.set(positions.rows, at.positions >>> 2);
  return at;
}

/** Turns rows of `heads` heads at one address to another, which may be the same. */
export function rotate(
  { kernels }: Core,
  rotation: Rotation,
  heads: number,
  at: Turns,
  from: number,
  to: number,
): void {
  const { rows, half, interleaved, positions } = rotation;
  const { batch, length, d, isBlhd } = rows;
  kernels.rotary(
    interleaved ? 1 : 0,
    isBlhd ? heads : 1,
    length,
    heads * length,
    d,
    half,
    from,
    at.cos,
    at.sin,
    at.positions,
    positions.stride,
    to,
    0,
    batch * heads * length,
  );
}

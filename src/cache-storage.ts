// Where a cache keeps its keys and values: two blocks of Wasm memory, [batch, numKvHeads, capacity, width] each, the
// row of position j being j % capacity (assembly/cache.ts).
import type { Core, Operand } from "./tensor.ts";

/** What a cache is of, fixed for its life. */
export interface CacheShape {
  readonly batch: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly valueDim: number;
  readonly isHalf: boolean;
}

/**
 * Where more of the halves are subnormal they are widened with care instead of read in place, where they would become
 * subnormal float32 numbers, with which processors compute a hundred times slower: that costs less from here on.
 */
const SUBNORMAL_SHARE = 1 / 100;

export class CacheStorage {
  readonly shape: CacheShape;
  /** Rows of each head; 0 before anything is stored. */
  capacity = 0;
  /** Addresses of the blocks. */
  keys = 0;
  values = 0;
  /** Halves stored since the cache was empty, and how many are subnormal: infinitely many where one is Infinity or NaN. */
  #halves = 0;
  #subnormals = 0;
  readonly #core: Core;

  constructor(core: Core, shape: CacheShape) {
    this.#core = core;
    this.shape = shape;
  }

  get #elementBytes(): number {
    return this.shape.isHalf ? 2 : 4;
  }

  /** What the kernels have to know of the elements. */
  get kvType(): number {
    const { FLOAT32, FLOAT16, FLOAT16_FINITE } = this.#core.kernels;
    if (!this.shape.isHalf) return FLOAT32;
    return this.#subnormals > SUBNORMAL_SHARE * this.#halves ? FLOAT16 : FLOAT16_FINITE;
  }

  /** Bytes of the rows of one width, every head. */
  #bytes(capacity: number, width: number): number {
    return this.shape.batch * this.shape.numKvHeads * capacity * width * this.#elementBytes;
  }

  get keyBytes(): number {
    return this.#bytes(this.capacity, this.shape.headDim);
  }

  get valueBytes(): number {
    return this.#bytes(this.capacity, this.shape.valueDim);
  }

  /** Takes blocks of another capacity, and the positions [first, end) along. If there is no room, nothing changes. */
  resize(fn: string, capacity: number, first: number, end: number): void {
    const { memory } = this.#core;
    const { headDim, valueDim } = this.shape;
    const keys = memory.allocate(this.#bytes(capacity, headDim), fn);
    let values: number;
    try {
      values = memory.allocate(this.#bytes(capacity, valueDim), fn);
    } catch (error) {
      memory.free(keys);
      throw error;
    }
    if (first < end) {
      this.#move(this.keys, keys, capacity, headDim, first, end);
      this.#move(this.values, values, capacity, valueDim, first, end);
    }
    this.free();
    this.keys = keys;
    this.values = values;
    this.capacity = capacity;
  }

  /** Copies the positions [first, end) of every head to a block of another capacity. */
  #move(from: number, to: number, capacity: number, width: number, first: number, end: number): void {
    const { u8 } = this.#core.memory;
    const rowBytes = width * this.#elementBytes;
    for (let head = 0; head < this.shape.batch * this.shape.numKvHeads; head++) {
      for (let j = first; j < end; ) {
        const [fromRow, toRow] = [j % this.capacity, j % capacity];
        const rows = Math.min(end - j, this.capacity - fromRow, capacity - toRow);
        const source = from + (head * this.capacity + fromRow) * rowBytes;
        u8.copyWithin(to + (head * capacity + toRow) * rowBytes, source, source + rows * rowBytes);
        j += rows;
      }
    }
  }

  /** Writes the rows of new tokens, at `position` and on; room for them there must be. */
  write(fn: string, key: Operand, value: Operand, position: number, rows: number, isBlhd: boolean): void {
    const { memory } = this.#core;
    const { headDim, valueDim } = this.shape;
    memory.reserve(memory.stagedBytes(key) + memory.stagedBytes(value), fn);
    this.#append(this.keys, headDim, memory.stageOperand(key), position, rows, isBlhd);
    this.#append(this.values, valueDim, memory.stageOperand(value), position, rows, isBlhd);
  }

  #append(to: number, width: number, from: number, position: number, rows: number, isBlhd: boolean): void {
    const { batch, numKvHeads } = this.shape;
    const subnormals = this.#core.kernels.cacheAppend(
      this.kvType,
      numKvHeads,
      this.capacity,
      width,
      to,
      position,
      rows,
      from,
      numKvHeads * rows * width,
      isBlhd ? width : rows * width,
      isBlhd ? numKvHeads * width : width,
      0,
      batch * numKvHeads,
    );
    if (!this.shape.isHalf) return;
    this.#subnormals += subnormals < 0 ? Infinity : subnormals;
    this.#halves += batch * numKvHeads * rows * width;
  }

  /** Nothing that is stored is of use any more. */
  clear(): void {
    this.#halves = 0;
    this.#subnormals = 0;
  }

  free(): void {
    if (this.capacity === 0) return;
    this.#core.memory.free(this.keys);
    this.#core.memory.free(this.values);
    this.capacity = 0;
  }
}

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

/** How many halves were stored, and how many of them are subnormal. */
interface Counts {
  halves: number;
  subnormals: number;
}

export class CacheStorage {
  readonly shape: CacheShape;
  /** Rows of each head; 0 before anything is stored. */
  capacity = 0;
  /** Addresses of the blocks. */
  keys = 0;
  values = 0;
  /** No position after this one holds Infinity or NaN; -1: none does. */
  #lastSpecial = -1;
  /** Counts of the positions from #since on, and of some before them, which are forgotten once those have left a ring. */
  #recent: Counts = { halves: 0, subnormals: 0 };
  #earlier: Counts = { halves: 0, subnormals: 0 };
  #since = 0;
  readonly #core: Core;

  constructor(core: Core, shape: CacheShape) {
    this.#core = core;
    this.shape = shape;
  }

  get #elementBytes(): number {
    return this.shape.isHalf ? 2 : 4;
  }

  /** What the kernels have to know of the elements, of which positions `first` and on are still there. */
  kvType(first: number): number {
    const { FLOAT32, FLOAT16, FLOAT16_FINITE, SUBNORMAL_SHARE } = this.#core.kernels;
    if (!this.shape.isHalf) return FLOAT32;
    const halves = this.#recent.halves + this.#earlier.halves;
    const subnormals = this.#recent.subnormals + this.#earlier.subnormals;
    return this.#lastSpecial >= first || subnormals > SUBNORMAL_SHARE * halves ? FLOAT16 : FLOAT16_FINITE;
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

  /**
   * Takes blocks of another capacity, and the positions [first, end) along. If there is no room for them, or for
   * `arenaBytes` beside them, nothing changes.
   */
  resize(fn: string, capacity: number, first: number, end: number, arenaBytes: number): void {
    const { memory } = this.#core;
    const { headDim, valueDim } = this.shape;
    const blocks: number[] = [];
    try {
      for (const width of [headDim, valueDim]) blocks.push(memory.allocate(this.#bytes(capacity, width), fn));
      memory.reserve(arenaBytes, fn); // last: to allocate may give the arena up
    } catch (error) {
      for (const block of blocks) memory.free(block);
      throw error;
    }
    const [keys, values] = blocks as [number, number];
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

  /** Bytes of arena that `write` takes. */
  stagedBytes(key: Operand, value: Operand): number {
    return this.#core.memory.stagedBytes(key) + this.#core.memory.stagedBytes(value);
  }

  /**
   * Writes the rows of new tokens, at `position` and on, over what stands before `first`; room for them there must be.
   * If there is none to copy them in, nothing changes.
   */
  write(
    fn: string,
    key: Operand,
    value: Operand,
    position: number,
    rows: number,
    first: number,
    isBlhd: boolean,
  ): void {
    const { memory } = this.#core;
    const { headDim, valueDim } = this.shape;
    memory.reserve(this.stagedBytes(key, value), fn);
    if (first >= this.#since) {
      this.#earlier = this.#recent; // what was counted there has left
      this.#recent = { halves: 0, subnormals: 0 };
      this.#since = position;
    }
    this.#append(this.keys, headDim, memory.stageOperand(key), position, rows, isBlhd);
    this.#append(this.values, valueDim, memory.stageOperand(value), position, rows, isBlhd);
  }

  #append(to: number, width: number, from: number, position: number, rows: number, isBlhd: boolean): void {
    const { batch, numKvHeads, isHalf } = this.shape;
    const { kernels } = this.#core;
    const subnormals = kernels.cacheAppend(
      isHalf ? kernels.FLOAT16 : kernels.FLOAT32,
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
    if (!isHalf) return;
    if (subnormals < 0) this.#lastSpecial = position + rows - 1;
    else this.#recent.subnormals += subnormals;
    this.#recent.halves += batch * numKvHeads * rows * width;
  }

  /** Positions from `length` on are of no use any more. */
  truncate(length: number): void {
    this.#lastSpecial = Math.min(this.#lastSpecial, length - 1);
    if (length > 0) return;
    this.#recent = { halves: 0, subnormals: 0 };
    this.#earlier = { halves: 0, subnormals: 0 };
    this.#since = 0;
  }

  free(): void {
    if (this.capacity === 0) return;
    this.#core.memory.free(this.keys);
    this.#core.memory.free(this.values);
    this.capacity = 0;
  }
}

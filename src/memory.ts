// The Wasm memory, owned by TypeScript: blocks for resident tensors, and one arena for what a call copies in and out.
//
// Not the allocator of the AssemblyScript runtime, whose growth doubles the memory and traps at the end of it: here the
// size of the next growth is known before it happens, so a limit is an error with both numbers and nothing is lost.
import { FreeList } from "./free-list.ts";
import type { Kernels } from "./instance.ts";
import { showShape } from "./shapes.ts";
import type { Operand } from "./tensor.ts";

/** Blocks start and end on cache lines. */
const ALIGNMENT = 64;
const PAGE_BYTES = 65536;
/** Up to this many floats a loop copies faster than `set` and `slice` begin (30 to 60 ns each). */
const LOOP_SIZE = 64;
/** A 32-bit memory less one page, so that an end pointer fits 32 bits. */
export const MAX_MEMORY_BYTES = 2 ** 32 - PAGE_BYTES;

/** Bytes rounded up to whole blocks. */
export function blockBytes(bytes: number): number {
  return Math.ceil(bytes / ALIGNMENT) * ALIGNMENT;
}

/** Throws for what a getter of a later argument has taken away. */
export function refuseChanged(what: string, size: string | number): never {
  throw new TypeError(
    `wasm-attention: ${what} ${size} was disposed, changed or detached while the call read its other arguments`,
  );
}

export class LinearMemory {
  /** The memory's buffer and views of all of it, made anew whenever it has grown. */
  buffer!: ArrayBuffer;
  f32!: Float32Array;
  i32!: Int32Array;
  u8!: Uint8Array;

  readonly #memory: Kernels["memory"];
  readonly #maxBytes: number;
  readonly #free = new FreeList();
  readonly #allocated = new Map<number, number>();
  /** Blocks that are no tensor's, beside the arena: kept for a call to come, and the first to go where room is short. */
  readonly #internal = new Set<number>();
  /** End of what the allocator hands out; the bytes behind it are the slack that kernels may read. */
  #end: number;
  readonly #slack: number;
  #arena = 0;
  #arenaBytes = 0;
  #cursor = 0;

  constructor(fn: string, kernels: Kernels, maxBytes: number) {
    this.#memory = kernels.memory;
    this.#maxBytes = maxBytes;
    this.#slack = blockBytes(kernels.READ_SLACK);
    const start = blockBytes(kernels.heapBase());
    this.#end = start;
    this.#view();
    if (this.byteLength > maxBytes) {
      throw new RangeError(
        `${fn}: maxMemoryBytes must be at least the ${this.byteLength} bytes of an empty runtime, got ${maxBytes}`,
      );
    }
    if (this.buffer.byteLength < start + this.#slack) this.#grow(start + this.#slack, fn);
    this.#extend();
  }

  get byteLength(): number {
    return this.buffer.byteLength;
  }

  /** A block of at least `bytes`; `caller` names the function in the error when the limit is reached. */
  allocate(bytes: number, caller: string): number {
    const size = Math.max(blockBytes(bytes), ALIGNMENT);
    let pointer = this.#take(size);
    if (pointer >= 0) return pointer;
    try {
      this.#growFor(size, caller);
    } catch (error) {
      // Idle between calls: their room may be all that is missing.
      if (!this.#releaseInternal()) throw error;
      pointer = this.#take(size);
      if (pointer >= 0) return pointer;
      this.#growFor(size, caller);
    }
    return this.#take(size);
  }

  /** True while a block that tryAllocate gave has not been given back, nor taken away where room was short. */
  isKept(pointer: number): boolean {
    return this.#internal.has(pointer);
  }

  /** A block of the library's own, until room gets short, or -1 where there is none for it. */
  tryAllocate(bytes: number, mayGrow: boolean): number {
    const size = Math.max(blockBytes(bytes), ALIGNMENT);
    let pointer = this.#take(size);
    if (pointer < 0) {
      if (!mayGrow || this.byteLength + size + PAGE_BYTES > this.#maxBytes) return -1;
      try {
        this.#growFor(size, "");
      } catch {
        return -1;
      }
      pointer = this.#take(size);
    }
    this.#internal.add(pointer);
    return pointer;
  }

  #take(size: number): number {
    const pointer = this.#free.take(size);
    if (pointer >= 0) this.#allocated.set(pointer, size);
    return pointer;
  }

  /** Grows the memory until a block of `size` fits behind what is in use. */
  #growFor(size: number, caller: string): void {
    this.#grow(this.#end - this.#free.sizeBefore(this.#end) + size + this.#slack, caller);
    this.#extend();
  }

  /** Gives a block back. Only what `allocate` returned, once. */
  free(pointer: number): void {
    const size = this.#allocated.get(pointer);
    if (size === undefined)
      throw new RangeError(`wasm-attention: free of ${pointer}, which is not allocated`);
    this.#allocated.delete(pointer);
    this.#internal.delete(pointer);
    this.#free.insert(pointer, size);
  }

  /** Starts a call: the arena holds at least `bytes`, and the next `stage` begins at its start. */
  reserve(bytes: number, caller: string): void {
    if (bytes > this.#arenaBytes) {
      this.#releaseArena();
      this.#arena = this.allocate(bytes, caller);
      this.#arenaBytes = this.#allocated.get(this.#arena)!;
    }
    this.stageFrom(this.#arena);
  }

  /**
   * The next `bytes` of the arena. It would be address 0, which kernels take for "none", in an arena that was never
   * allocated; but a call that stages anything has reserved room for it.
   */
  stage(bytes: number): number {
    const pointer = this.#cursor;
    this.#cursor += blockBytes(bytes);
    return pointer;
  }

  /** The next `stage` begins at the start of this block. */
  stageFrom(block: number): void {
    this.#cursor = block;
  }

  /** Address of an array that is a view of this memory as it is now, or -1. */
  addressOf(data: Float32Array | Uint8Array): number {
    return data.buffer === this.buffer ? data.byteOffset : -1;
  }

  /** True if [address, address + bytes) lies within the block of a tensor. */
  isInUse(address: number, bytes: number): boolean {
    for (const [start, size] of this.#allocated) {
      if (address >= start && address + bytes <= start + size)
        return !this.#internal.has(start) && (start !== this.#arena || this.#arenaBytes === 0);
    }
    return false;
  }

  /** The values of an operand, wherever it lives. */
  valuesOf(operand: Operand): Float32Array {
    return operand.address < 0 ? operand.data : this.floatsAt(operand.address, operand.size);
  }

  /** A view of the `size` floats at an address, valid until the memory grows. */
  floatsAt(address: number, size: number): Float32Array {
    return this.f32.subarray(address >>> 2, (address >>> 2) + size);
  }

  /** Throws if a getter of a later argument has disposed or detached an operand: asked once all are read. */
  checkIntact(operand: Operand): void {
    if (operand.owner?.disposed || (operand.address < 0 && operand.data.length !== operand.size)) {
      refuseChanged("an operand of shape", showShape(operand.shape));
    }
  }

  /** Bytes that a call must reserve for an operand, which is still intact: none if it lives here. */
  stagedBytes(operand: Operand): number {
    this.checkIntact(operand);
    return operand.address < 0 ? blockBytes(operand.size * 4) : 0;
  }

  /** Address of an operand: its own if it lives here, else that of its copy in the arena. */
  stageOperand({ address, data, size }: Operand): number {
    if (address >= 0) return address;
    const pointer = this.stage(size * 4);
    this.copyIn(data, 0, size, pointer);
    return pointer;
  }

  /** Copies floats [begin, end) of an array to an address. */
  copyIn(data: Float32Array, begin: number, end: number, pointer: number): void {
    const to = pointer >>> 2;
    const size = end - begin;
    if (size <= LOOP_SIZE) for (let i = 0; i < size; i++) this.f32[to + i] = data[begin + i]!;
    else if (size === data.length) this.f32.set(data, to);
    else this.f32.set(new Float32Array(data.buffer, data.byteOffset + begin * 4, size), to);
  }

  /** Copies the `size` floats at an address to an array, from its float `begin` on. */
  copyTo(data: Float32Array, begin: number, size: number, pointer: number): void {
    const from = pointer >>> 2;
    if (size <= LOOP_SIZE) for (let i = 0; i < size; i++) data[begin + i] = this.f32[from + i]!;
    else data.set(this.floatsAt(pointer, size), begin);
  }

  /** A new array with the `size` floats at an address. */
  copyOut(pointer: number, size: number): Float32Array {
    // Not slice, which fills its new buffer with zeros first: a quarter less time for 400 KB (Node 24).
    if (size > LOOP_SIZE) return new Float32Array(this.floatsAt(pointer, size));
    const data = new Float32Array(size);
    this.copyTo(data, 0, size, pointer);
    return data;
  }

  /** Gives back all that is no tensor's; false where there is nothing. */
  #releaseInternal(): boolean {
    const had = this.#arenaBytes > 0 || this.#internal.size > 0;
    this.#releaseArena();
    for (const pointer of this.#internal) this.free(pointer);
    return had;
  }

  #releaseArena(): void {
    if (this.#arenaBytes === 0) return;
    this.free(this.#arena);
    this.#arenaBytes = 0;
  }

  /** Grows the memory to hold `bytes` in all, and makes the views anew. */
  #grow(bytes: number, caller: string): void {
    const have = this.byteLength;
    const pages = Math.ceil(bytes / PAGE_BYTES);
    if (pages * PAGE_BYTES > this.#maxBytes) {
      throw new RangeError(
        `${caller}: needs ${pages * PAGE_BYTES} bytes of Wasm memory, more than maxMemoryBytes = ${this.#maxBytes}`,
      );
    }
    try {
      this.#memory.grow(pages - have / PAGE_BYTES);
    } catch (cause) {
      throw new RangeError(
        `${caller}: the engine refused to grow the Wasm memory from ${have} to ${pages * PAGE_BYTES} bytes`,
        { cause },
      );
    }
    this.#view();
  }

  #view(): void {
    this.buffer = this.#memory.buffer as ArrayBuffer;
    this.f32 = new Float32Array(this.buffer);
    this.i32 = new Int32Array(this.buffer);
    this.u8 = new Uint8Array(this.buffer);
  }

  /** Hands the memory behind #end to the allocator. */
  #extend(): void {
    const end = this.byteLength - this.#slack;
    if (end > this.#end) this.#free.insert(this.#end, end - this.#end);
    this.#end = end;
  }
}

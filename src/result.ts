// What goes out: results of a call, which go to the caller's `out`, to new plain tensors or to new resident ones.
import { blockBytes } from "./memory.ts";
import { sizeOf } from "./shapes.ts";
import { allocateTensor, type Core, type Operand, type ResidentTensor } from "./tensor.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

/** Node's and others' Buffer, of which one function is used. */
interface Uninitialized {
  Buffer?: { allocUnsafeSlow?: (bytes: number) => Uint8Array<ArrayBuffer> };
}

/**
 * A new array, every element of which will be written: not zeros, where the engine can do without, since to write those
 * first takes as long as the copy itself (Node 24: 1.7 in place of 0.6 ms for 4 MB).
 */
function uninitialized(size: number): Float32Array {
  const { Buffer } = globalThis as Uninitialized;
  if (size < 2 ** 29 && Buffer?.allocUnsafeSlow !== undefined) {
    const { buffer, byteLength } = Buffer.allocUnsafeSlow(size * 4);
    if (buffer.byteLength === byteLength) return new Float32Array(buffer); // a pool would be shared
  }
  return new Float32Array(size);
}

/** A result of one call: where the kernel writes it, and what the caller gets. */
export class Result {
  readonly shape: number[];
  readonly size: number;
  readonly #core: Core;
  readonly #out: Operand | undefined;
  readonly #given: TensorLike | undefined;
  readonly #fn: string;
  readonly #isResident: boolean;
  /** What is handed out, of a result that is copied out in parts. */
  #data: Float32Array | undefined;
  #tensor: ResidentTensor | undefined;

  /**
   * `out` (checked) and `given` (as it came) are the caller's own; without them the result is a new resident tensor
   * where `resident` asks for one, and a new plain tensor otherwise.
   */
  constructor(
    core: Core,
    fn: string,
    shape: number[],
    out: Operand | undefined,
    given: TensorLike | undefined,
    resident: boolean,
  ) {
    this.shape = shape;
    this.size = sizeOf(shape);
    this.#core = core;
    this.#out = out;
    this.#given = given;
    this.#fn = fn;
    this.#isResident = out === undefined && resident;
  }

  /** Takes the block of a new resident tensor: when all that comes in has been read, so that nothing is left behind. */
  allocate(): void {
    if (this.#isResident) this.#tensor ??= allocateTensor(this.#core.memory, this.#fn, this.shape);
  }

  /** True if it is copied out of Wasm memory: it is neither resident nor goes to an `out` that is. */
  get isCopied(): boolean {
    return !this.#isResident && (this.#out === undefined || this.#out.address < 0);
  }

  /** Bytes of arena for `size` of its floats. */
  stagedBytes(size = this.size): number {
    if (this.#out !== undefined) this.#core.memory.checkIntact(this.#out);
    return this.isCopied ? blockBytes(size * 4) : 0;
  }

  /** Address for the kernel to write to; room for `size` floats where it is copied out. */
  stage(size = this.size): number {
    const address = this.#tensor?.addressIn(this.#core.memory) ?? this.#out?.address ?? -1;
    return address < 0 ? this.#core.memory.stage(size * 4) : address;
  }

  /** True if writing a part of it may change what has yet to be read of an operand. */
  mayOverwrite(operand: Operand): boolean {
    if (this.#out === undefined || this.#out.address >= 0 || operand.address >= 0) return false;
    const { data } = this.#out;
    const { buffer } = data;
    if (buffer !== operand.data.buffer) return !(buffer instanceof ArrayBuffer); // two others may share one memory
    return data.byteOffset !== operand.data.byteOffset || this.size !== operand.size; // else part by part
  }

  /** Copies out the `size` floats at `pointer`, which are those from float `from` on. */
  take(pointer: number, from: number, size: number): void {
    if (!this.isCopied) return;
    const { memory } = this.#core;
    if (this.#out === undefined && size === this.size) {
      this.#data = memory.copyOut(pointer, size);
      return;
    }
    this.#data ??= this.#out?.data ?? uninitialized(this.size);
    memory.copyTo(this.#data, from, size, pointer);
  }

  /** What the caller gets, once the kernel has written to `pointer`. */
  finish(pointer: number): Tensor {
    this.take(pointer, 0, this.size);
    return this.close();
  }

  /** What the caller gets, once all of it is taken. */
  close(): Tensor {
    this.allocate(); // an empty result has passed no reserve
    if (this.#tensor !== undefined) return this.#tensor;
    if (this.#out === undefined) return { data: this.#data ?? new Float32Array(0), shape: this.shape };
    const given = this.#given as Tensor;
    if (this.#out.address >= 0 && this.size > 0 && given.data.length === 0) {
      // its view went stale as the memory grew
      return { data: this.#core.memory.valuesOf(this.#out), shape: this.shape };
    }
    // A tensor with `dims` alone is not returned as it came: the result type promises a `shape`.
    return given.shape === undefined ? { data: given.data, shape: this.shape } : given;
  }

  /** Gives back what a failed call had allocated. */
  abandon(): void {
    this.#tensor?.dispose();
  }
}

/** A result for each shape, which becomes its own. The first goes to `out` (checked) where there is one, `given` as it came. */
export function makeResults(
  core: Core,
  fn: string,
  shapes: readonly number[][],
  resident: boolean,
  out?: Operand,
  given?: TensorLike,
): Result[] {
  return shapes.map((shape, i) => new Result(core, fn, shape, i > 0 ? undefined : out, given, resident));
}

/** Reserves the blocks of the results and the arena for a call, or nothing at all. */
export function reserve(core: Core, fn: string, bytes: number, results: readonly Result[]): void {
  try {
    for (const result of results) result.allocate();
    core.memory.reserve(bytes, fn);
  } catch (error) {
    for (const result of results) result.abandon();
    throw error;
  }
}

// What goes out: results of a call, which go to the caller's `out`, to new plain tensors or to new resident ones.
import { blockBytes } from "./memory.ts";
import { sizeOf } from "./shapes.ts";
import { allocateTensor, type Core, type Operand, type ResidentTensor } from "./tensor.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

/** A result of one call: where the kernel writes it, and what the caller gets. */
export class Result {
  readonly shape: number[];
  readonly size: number;
  readonly #core: Core;
  readonly #out: Operand | undefined;
  readonly #given: TensorLike | undefined;
  readonly #fn: string;
  readonly #isResident: boolean;
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

  /** Bytes of arena it needs. */
  get stagedBytes(): number {
    if (this.#isResident) return 0;
    return this.#out === undefined ? blockBytes(this.size * 4) : this.#core.memory.stagedBytes(this.#out);
  }

  /** Address for the kernel to write to. */
  stage(): number {
    const address = this.#tensor?.addressIn(this.#core.memory) ?? this.#out?.address ?? -1;
    return address < 0 ? this.#core.memory.stage(this.size * 4) : address;
  }

  /** What the caller gets, once the kernel has written to `pointer`. */
  finish(pointer: number): Tensor {
    this.allocate(); // an empty result has passed no reserve
    if (this.#tensor !== undefined) return this.#tensor;
    const { memory } = this.#core;
    if (this.#out === undefined) return { data: memory.copyOut(pointer, this.size), shape: this.shape };
    if (this.#out.address < 0) this.#out.data.set(memory.floatsAt(pointer, this.size));
    const given = this.#given as Tensor;
    if (this.#out.address >= 0 && this.size > 0 && given.data.length === 0) {
      // its view went stale as the memory grew
      return { data: memory.valuesOf(this.#out), shape: this.shape };
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

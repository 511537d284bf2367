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
  readonly #tensor: ResidentTensor | undefined;

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
    this.#tensor = out === undefined && resident ? allocateTensor(core.memory, fn, shape) : undefined;
  }

  /** Where the result is written if it does not pass through the arena, else -1. */
  get #address(): number {
    return this.#tensor?.addressIn(this.#core.memory) ?? this.#out?.address ?? -1;
  }

  /** Bytes of arena it needs. */
  get stagedBytes(): number {
    return this.#address < 0 ? blockBytes(this.size * 4) : 0;
  }

  /** Address for the kernel to write to. */
  stage(): number {
    return this.#address < 0 ? this.#core.memory.stage(this.size * 4) : this.#address;
  }

  /** What the caller gets, once the kernel has written to `pointer`. */
  finish(pointer: number): Tensor {
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

/**
 * A result for each shape, which becomes its own, or none at all. The first goes to `out` (checked) where there is one,
 * `given` as it came.
 */
export function makeResults(
  core: Core,
  fn: string,
  shapes: readonly number[][],
  resident: boolean,
  out?: Operand,
  given?: TensorLike,
): Result[] {
  const results: Result[] = [];
  try {
    for (let i = 0; i < shapes.length; i++) {
      results.push(new Result(core, fn, shapes[i]!, i > 0 ? undefined : out, given, resident));
    }
  } catch (error) {
    for (const result of results) result.abandon();
    throw error;
  }
  return results;
}

/** Reserves the arena for a call; if that fails, gives back the results allocated before it. */
export function reserve(core: Core, fn: string, bytes: number, results: readonly Result[]): void {
  try {
    core.memory.reserve(bytes, fn);
  } catch (error) {
    for (const result of results) result.abandon();
    throw error;
  }
}

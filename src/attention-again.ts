// Small attention once more, with the shapes of the call before and no option but isCausal and out: only the numbers
// differ. Of the time of such a call the kernel takes a sixth, the reading and checking of arguments most (4 x 4: 1.1 us;
// this way 0.4). So what follows from the shapes is kept from the second such call on, the params ready in a block of
// Wasm memory of their own.
import { type Inputs, outShape } from "./attention-problem.ts";
import { otherBytes, scratchBytes, stageOthers, workItems } from "./attention-staging.ts";
import { blockBytes } from "./memory.ts";
import { writeOperands } from "./params.ts";
import { sameShape, sizeOf } from "./shapes.ts";
import { type Core, isOrdinary, ResidentTensor } from "./tensor.ts";
import type { AttentionOptions } from "./types/attention.ts";
import type { Shape, Tensor, TensorLike } from "./types/tensor.ts";

/** Floats of the operands, and of the result, above which the call itself is not what costs. */
const MOST_FLOATS = 1024;

/** Where a call of these shapes finds everything. */
interface Prepared {
  readonly block: number;
  readonly query: number;
  readonly key: number;
  readonly value: number;
  readonly out: number;
  readonly params: number;
  readonly items: number;
}

/** The shapes of the call before. At the second call in a row it is prepared, and serves from the third on. */
export class AttentionAgain {
  readonly #core: Core;
  readonly #isCausal: boolean;
  readonly #query: Shape;
  readonly #key: Shape;
  readonly #value: Shape;
  readonly #out: number[];
  readonly #sizes: {
    readonly query: number;
    readonly key: number;
    readonly value: number;
    readonly out: number;
  };
  #prepared: Prepared | undefined;

  constructor(core: Core, { q, k, v }: Inputs, isCausal: boolean, outShape: number[], outSize: number) {
    this.#core = core;
    this.#isCausal = isCausal;
    this.#query = q.shape;
    this.#key = k.shape;
    this.#value = v.shape;
    this.#out = outShape;
    this.#sizes = { query: q.size, key: k.size, value: v.size, out: outSize };
  }

  fits({ q, k, v }: Inputs, isCausal: boolean): boolean {
    return (
      isCausal === this.#isCausal &&
      sameShape(q.shape, this.#query) &&
      sameShape(k.shape, this.#key) &&
      sameShape(v.shape, this.#value)
    );
  }

  /** Takes a block, if there can be one, and stages there what any call of these shapes stages. */
  prepare(inputs: Inputs, mayGrow: boolean): void {
    if (this.#kept() !== undefined) return;
    const core = this.#core;
    const { memory, kernels } = core;
    const sizes = this.#sizes;
    const scratch = scratchBytes(core, inputs.p);
    let bytes = otherBytes(core, inputs) + blockBytes(scratch);
    for (const size of Object.values(sizes)) bytes += blockBytes(size * 4);
    const block = memory.tryAllocate(bytes, mayGrow);
    if (block < 0) return;
    memory.stageFrom(block);
    const params = stageOthers(core, inputs, memory.stage(scratch));
    const query = memory.stage(sizes.query * 4);
    const key = memory.stage(sizes.key * 4);
    const value = memory.stage(sizes.value * 4);
    const out = memory.stage(sizes.out * 4);
    writeOperands(core, params, query, key, value, out, kernels.NO_LSE);
    this.#prepared = { block, query, key, value, out, params, items: workItems(core, inputs.p) };
  }

  /** What is prepared, unless its block was taken away where room was short. */
  #kept(): Prepared | undefined {
    const prepared = this.#prepared;
    return prepared !== undefined && this.#core.memory.isKept(prepared.block) ? prepared : undefined;
  }

  dispose(): void {
    const prepared = this.#kept();
    if (prepared !== undefined) this.#core.memory.free(prepared.block);
    this.#prepared = undefined;
  }

  /** The result of a call that is prepared, nothing for any other: that is then read and checked in full. */
  run(query: TensorLike, key: TensorLike, value: TensorLike, options: AttentionOptions): Tensor | undefined {
    if (this.#prepared === undefined) return undefined;
    const q = dataOf(query, this.#query);
    if (q === undefined || !isPlain(options, this.#isCausal)) return undefined;
    const k = dataOf(key, this.#key);
    const v = dataOf(value, this.#value);
    const given = options.out;
    const to = given === undefined ? undefined : dataOf(given, this.#out);
    if (k === undefined || v === undefined || (given !== undefined && to === undefined)) return undefined;
    // From here on no getter is left to run, which might detach an array, grow the memory, or give the block back.
    const prepared = this.#kept();
    if (prepared === undefined) return undefined;
    const { memory, kernels } = this.#core;
    const { buffer } = memory;
    const { query: sizeQ, key: sizeK, value: sizeV, out: size } = this.#sizes;
    if (q.length !== sizeQ || k.length !== sizeK || v.length !== sizeV) return undefined;
    if (q.buffer === buffer || k.buffer === buffer || v.buffer === buffer) return undefined;
    if (to !== undefined && (to.length !== size || to.buffer === buffer)) return undefined;
    memory.copyIn(q, 0, sizeQ, prepared.query);
    memory.copyIn(k, 0, sizeK, prepared.key);
    memory.copyIn(v, 0, sizeV, prepared.value);
    kernels.attention(prepared.params, 0, prepared.items);
    if (to === undefined) return { data: memory.copyOut(prepared.out, size), shape: this.#out.slice() };
    memory.copyTo(to, 0, size, prepared.out);
    return given as Tensor;
  }
}

/** Says of a call what the next is served by, when it has been computed. */
export function noteCall(core: Core, inputs: Inputs, options: AttentionOptions): void {
  const { q, k, v } = inputs;
  const isCausal = options.isCausal === true;
  if (q.size + k.size + v.size > MOST_FLOATS || q.address >= 0 || k.address >= 0 || v.address >= 0) return;
  if (!isPlain(options, isCausal)) return;
  if (core.again?.fits(inputs, isCausal)) {
    core.again.prepare(inputs, options.out === undefined); // an out may be a view of Wasm memory, which growth detaches
    return;
  }
  const shape = outShape(inputs);
  const size = sizeOf(shape);
  if (size === 0 || size > MOST_FLOATS) return;
  core.again?.dispose();
  core.again = new AttentionAgain(core, inputs, isCausal, shape, size);
}

/** True where no option but isCausal and out is there, and isCausal says the same. */
function isPlain(options: AttentionOptions, isCausal: boolean): boolean {
  if (typeof options !== "object" || options === null) return false;
  const prototype: unknown = Object.getPrototypeOf(options);
  if (prototype !== Object.prototype && prototype !== null) return false;
  for (const key in options) if (key !== "isCausal" && key !== "out") return false;
  return options.isCausal === isCausal || (options.isCausal === undefined && !isCausal);
}

/** The data of a tensor with this shape, nothing for anything else. */
function dataOf(value: TensorLike, expected: Shape): Float32Array | undefined {
  if (typeof value !== "object" || value === null || value instanceof ResidentTensor) return undefined;
  const { shape, data } = value as Partial<Tensor>;
  if (!Array.isArray(shape) || !sameShape(shape, expected)) return undefined;
  return isOrdinary(data) ? (data as Float32Array) : undefined;
}

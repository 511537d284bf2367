/// <reference lib="esnext.disposable" preserve="true" />
// Tensors: what comes in, checked into operands, and tensors that live in Wasm memory.
import type { AttentionAgain } from "./attention-again.ts";
import type { Kernels } from "./instance.ts";
import type { LinearMemory } from "./memory.ts";
import { copyShape, describe, sameShape, showShape, sizeOf } from "./shapes.ts";
import type { Shape, Tensor, TensorLike } from "./types/tensor.ts";

/** What every operation works with: the kernels of one instance and their memory. */
export interface Core {
  readonly kernels: Kernels;
  readonly memory: LinearMemory;
  /** What the next call of attention may be served by. */
  again: AttentionAgain | undefined;
}

/** A checked operand of one call. */
export interface Operand {
  readonly data: Float32Array;
  /** A copy of the caller's; the result may take it over. */
  readonly shape: number[];
  readonly size: number;
  /** Where it lives in this Wasm memory, or -1: it must be copied in. */
  readonly address: number;
  /** Whether it is a resident tensor of this runtime. */
  readonly resident: boolean;
  /** What it belongs to, if that can be disposed. */
  readonly owner?: { readonly disposed: boolean } | undefined;
}

const EMPTY = new Float32Array(0);

/**
 * A float32 tensor in Wasm memory. Operations take it without a copy, and return one where every operand is
 * resident. It stays allocated until `dispose()`; `using` does that at the end of a block.
 *
 * @example
 * using weights = runtime.tensor([768, 768], values);
 * const y = runtime.matmul(x, weights);
 */
export class ResidentTensor implements Tensor, Disposable {
  /** Axis lengths. */
  readonly shape: number[];
  readonly #memory: LinearMemory;
  readonly #address: number;
  readonly #size: number;
  #disposed = false;

  /** @internal */
  constructor(memory: LinearMemory, address: number, shape: number[]) {
    this.#memory = memory;
    this.#address = address;
    this.#size = sizeOf(shape);
    this.shape = shape;
  }

  /**
   * The values: a view of Wasm memory, valid until the memory next grows, so take it anew after other calls.
   * @throws {TypeError} after dispose.
   */
  get data(): Float32Array {
    if (this.#disposed)
      throw new TypeError(`ResidentTensor: data of shape ${showShape(this.shape)} was read after dispose()`);
    return this.#memory.floatsAt(this.#address, this.#size);
  }

  /** True once dispose() has given the memory back. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /** Gives the memory back. More than once is no error. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#memory.free(this.#address);
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  /** @internal Number of elements, whatever has been done to `shape`. */
  get size(): number {
    return this.#size;
  }

  /** @internal Address in `memory`, or -1 if the tensor lives in another runtime. */
  addressIn(memory: LinearMemory): number {
    return memory === this.#memory ? this.#address : -1;
  }
}

/** Throws unless the value is a Float32Array of any realm; says what to do about the usual other types. */
function checkFloat32(fn: string, name: string, data: unknown): asserts data is Float32Array {
  if (data instanceof Float32Array) return; // the common case at a tenth of the cost; what follows knows other realms
  if (ArrayBuffer.isView(data) && Object.prototype.toString.call(data) === "[object Float32Array]") return;
  const kind = describe(data);
  const convert = "convert it with Float32Array.from(data)";
  const hint =
    kind === "a Float64Array"
      ? `; float64 is not computed: ${convert}`
      : Array.isArray(data)
        ? `; ${convert}`
        : "";
  throw new TypeError(`${fn}: ${name}.data must be a Float32Array, got ${kind}${hint}`);
}

/** True for a Float32Array of this realm and of no subclass: its methods are those of the language. */
export function isOrdinary(data: unknown): boolean {
  return ArrayBuffer.isView(data) && Object.getPrototypeOf(data) === Float32Array.prototype;
}

/** The checked data of a tensor of this shape: an ordinary array, a view where it is of a subclass or another realm. */
function readData(fn: string, name: string, given: unknown, shape: Shape): Float32Array {
  checkFloat32(fn, name, given);
  const data = isOrdinary(given) ? given : new Float32Array(given.buffer, given.byteOffset, given.length);
  checkLength(fn, name, data.length, shape, data.buffer);
  return data;
}

/** The shape of a tensor-like value, `shape` or `dims` where there is none: a copy, each length read once. */
export function readShape(fn: string, name: string, value: unknown): number[] {
  if (typeof value !== "object" || value === null) {
    throw new TypeError(`${fn}: ${name} must be a tensor { data, shape }, got ${describe(value)}`);
  }
  const { shape, dims } = value as { shape?: unknown; dims?: unknown };
  const found = shape ?? dims;
  if (found === undefined) {
    throw new TypeError(
      `${fn}: ${name} must be a tensor { data, shape }, got ${describe(value)} without a shape`,
    );
  }
  return copyShape(fn, name, found);
}

/** Throws unless `length` elements fill the shape; tells a detached buffer from a wrong length. */
export function checkLength(
  fn: string,
  name: string,
  length: number,
  shape: Shape,
  buffer?: ArrayBufferLike,
): void {
  const size = sizeOf(shape);
  if (length === size) return;
  const detached = length === 0 && buffer !== undefined && buffer.byteLength === 0;
  const why = detached
    ? "; its buffer is detached (transferred, or Wasm memory that has grown since the view was taken)"
    : "";
  throw new RangeError(
    `${fn}: ${name}.data must hold ${size} elements for shape ${showShape(shape)}, got ${length}${why}`,
  );
}

/** Address of data that is a view of this Wasm memory, or -1; throws where the tensor it was of is disposed. */
export function liveAddressOf(
  { memory }: Core,
  fn: string,
  name: string,
  data: Float32Array | Uint8Array,
): number {
  const address = memory.addressOf(data);
  if (address >= 0 && data.length > 0 && !memory.isInUse(address, data.byteLength)) {
    throw new TypeError(
      `${fn}: ${name}.data is a view of Wasm memory that belongs to no tensor; the one it was of is disposed`,
    );
  }
  return address;
}

/** Checks one operand: a tensor-like value with its data, or a resident tensor that is not disposed. */
export function readOperand(core: Core, fn: string, name: string, value: TensorLike): Operand {
  if (value instanceof ResidentTensor) {
    if (value.disposed)
      throw new TypeError(
        `${fn}: ${name} is a resident tensor of shape ${showShape(value.shape)} that was disposed`,
      );
    const { size } = value;
    const shape = copyShape(fn, name, value.shape);
    checkLength(fn, name, size, shape); // the shape is the caller's to read, and an array can be written to
    const address = value.addressIn(core.memory);
    const resident = address >= 0;
    return { data: resident ? EMPTY : value.data, shape, size, address, resident, owner: value };
  }
  const shape = readShape(fn, name, value);
  const data = readData(fn, name, value.data, shape);
  const address = liveAddressOf(core, fn, name, data);
  return { data, shape, size: data.length, address, resident: false, owner: undefined };
}

/** Checks the `out` option against the shape of the result. */
export function readOut(
  core: Core,
  fn: string,
  value: TensorLike | undefined,
  shape: Shape,
): Operand | undefined {
  if (value === undefined) return undefined;
  const out = readOperand(core, fn, "out", value);
  if (!sameShape(out.shape, shape)) {
    throw new RangeError(`${fn}: out.shape must be ${showShape(shape)}, got ${showShape(out.shape)}`);
  }
  return out;
}

/** Throws if `out` shares Wasm memory with an operand, unless it may be that very operand (`inPlace`). */
export function checkAlias(
  fn: string,
  out: Operand | undefined,
  name: string,
  operand: Operand,
  inPlace = false,
): void {
  if (out === undefined || out.address < 0 || operand.address < 0) return;
  const apart =
    out.address + out.size * 4 <= operand.address || operand.address + operand.size * 4 <= out.address;
  if (apart || (inPlace && out.address === operand.address)) return;
  throw new RangeError(
    `${fn}: out must not overlap ${name} in Wasm memory${inPlace ? ", unless it is the same tensor" : ""}: ` +
      `out is at [${out.address}, ${out.address + out.size * 4}), ${name} at [${operand.address}, ${operand.address + operand.size * 4})`,
  );
}

/** A new resident tensor with undefined contents, which takes the shape over. */
export function allocateTensor(memory: LinearMemory, fn: string, shape: number[]): ResidentTensor {
  return new ResidentTensor(memory, memory.allocate(sizeOf(shape) * 4, fn), shape);
}

/** A new resident tensor, filled from `data` or with zeros. */
export function createTensor(core: Core, givenShape: Shape, given?: Float32Array): ResidentTensor {
  const fn = "tensor";
  const shape = copyShape(fn, "tensor", givenShape);
  const data = given === undefined ? undefined : readData(fn, "tensor", given, shape);
  const address = data === undefined ? -1 : liveAddressOf(core, fn, "tensor", data);
  const tensor = allocateTensor(core.memory, fn, shape);
  const { f32 } = core.memory;
  const start = tensor.addressIn(core.memory) >>> 2;
  if (data === undefined) f32.fill(0, start, start + sizeOf(shape));
  else if (address < 0) f32.set(data, start);
  else f32.copyWithin(start, address >>> 2, (address >>> 2) + sizeOf(shape)); // its view may have gone stale by growth
  return tensor;
}

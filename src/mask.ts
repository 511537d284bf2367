// The attnMask option: its type, its shape against [...batch, heads, queryLength, keyLength], its strides.
import { blockBytes, refuseChanged } from "./memory.ts";
import { describe, showShape, sizeOf } from "./shapes.ts";
import {
  type Core,
  checkLength,
  liveAddressOf,
  type Operand,
  ResidentTensor,
  readOperand,
  readShape,
} from "./tensor.ts";
import type { MaskLike } from "./types/attention.ts";
import type { Shape, TensorLike } from "./types/tensor.ts";

/** A checked mask, read as [batch, heads, lq, lk] with stride 0 on each axis that it broadcasts. */
export interface Mask {
  /** An additive mask is a float32 operand; a boolean one is bytes. */
  readonly additive: Operand | undefined;
  readonly bytes: Uint8Array | undefined;
  /** Number of bytes, and their address where they are a view of this Wasm memory (else -1): growth empties the view. */
  readonly byteLength: number;
  readonly byteAddress: number;
  readonly batchStride: number;
  readonly headStride: number;
  readonly rowStride: number;
  readonly columnStride: number;
}

function isByteArray(data: unknown): data is Uint8Array | Uint8ClampedArray {
  const tag = Object.prototype.toString.call(data);
  return ArrayBuffer.isView(data) && (tag === "[object Uint8Array]" || tag === "[object Uint8ClampedArray]");
}

/** Boolean data as bytes: a view of them, or a copy of an array of booleans; undefined where it is neither. */
function asBytes(fn: string, data: unknown): Uint8Array | undefined {
  if (isByteArray(data)) return new Uint8Array(data.buffer, data.byteOffset, data.length);
  if (!Array.isArray(data)) return undefined;
  const bytes = new Uint8Array(data.length);
  for (let i = 0; i < bytes.length; i++) {
    const value: unknown = data[i];
    if (typeof value !== "boolean") {
      throw new TypeError(
        `${fn}: attnMask.data as an array must hold true and false only, got ${describe(value)} at ${i}; ` +
          "numbers take a Uint8Array (non-zero = attend) or a Float32Array (added to the scores)",
      );
    }
    bytes[i] = value ? 1 : 0;
  }
  return bytes;
}

/** The strides, leading axes counting as one batch axis: all as in the problem, or all 1. */
function broadcastMask(
  fn: string,
  shape: Shape,
  target: Shape,
): Omit<Mask, "additive" | "bytes" | "byteLength" | "byteAddress"> {
  const rank = target.length;
  const padded: number[] = [...new Array<number>(Math.max(rank - shape.length, 0)).fill(1), ...shape];
  while (padded.length > rank && padded[0] === 1) padded.shift();
  if (padded.length > rank || padded.some((length, i) => length !== 1 && length !== target[i])) {
    throw new RangeError(
      `${fn}: attnMask must broadcast to [...batch, heads, queryLength, keyLength] = ${showShape(target)}, ` +
        `got ${showShape(shape)}`,
    );
  }
  const lead = padded.slice(0, -3);
  const same = lead.every((length, i) => length === target[i]);
  if (!same && lead.some((length) => length !== 1)) {
    throw new RangeError(
      `${fn}: the batch axes of attnMask must all be 1 or all be ${showShape(target.slice(0, -3))}, got ${showShape(lead)}`,
    );
  }
  const [heads = 1, rows = 1, columns = 1] = padded.slice(-3);
  return {
    batchStride: sizeOf(lead) === 1 ? 0 : heads * rows * columns,
    headStride: heads === 1 ? 0 : rows * columns,
    rowStride: rows === 1 ? 0 : columns,
    columnStride: columns === 1 ? 0 : 1,
  };
}

/** Checks the mask against the problem; `target` is [...batch, heads, lq, lk] of rank 3 or more. */
export function readMask(core: Core, fn: string, mask: MaskLike, target: Shape): Mask {
  if (!(mask instanceof ResidentTensor)) {
    const shape = readShape(fn, "attnMask", mask);
    const { data } = mask;
    const bytes = asBytes(fn, data);
    if (bytes !== undefined) {
      checkLength(fn, "attnMask", bytes.length, shape, bytes.buffer);
      const byteAddress = liveAddressOf(core, fn, "attnMask", bytes);
      return {
        additive: undefined,
        bytes,
        byteLength: bytes.length,
        byteAddress,
        ...broadcastMask(fn, shape, target),
      };
    }
    if (Object.prototype.toString.call(data) !== "[object Float32Array]") {
      throw new TypeError(
        `${fn}: attnMask.data must be a Uint8Array, Uint8ClampedArray or array of booleans (true or non-zero = attend), ` +
          `or a Float32Array (added to the scores), got ${describe(data)}`,
      );
    }
  }
  const additive = readOperand(core, fn, "attnMask", mask as TensorLike);
  return {
    additive,
    bytes: undefined,
    byteLength: 0,
    byteAddress: -1,
    ...broadcastMask(fn, additive.shape, target),
  };
}

/** Bytes of arena for the mask. */
export function stagedMaskBytes(core: Core, mask: Mask | undefined): number {
  if (mask === undefined) return 0;
  if (mask.additive !== undefined) return core.memory.stagedBytes(mask.additive);
  if (mask.byteAddress < 0 && mask.bytes!.length !== mask.byteLength)
    refuseChanged("a mask", mask.byteLength);
  return blockBytes(mask.byteLength);
}

/** Address of the mask, copied in where it does not live in Wasm memory. */
export function stageMask(core: Core, mask: Mask | undefined): number {
  if (mask === undefined) return 0;
  if (mask.additive !== undefined) return core.memory.stageOperand(mask.additive);
  const bytes = mask.bytes!;
  const address = core.memory.stage(mask.byteLength);
  if (mask.byteAddress >= 0)
    core.memory.u8.copyWithin(address, mask.byteAddress, mask.byteAddress + mask.byteLength);
  else core.memory.u8.set(bytes, address);
  return address;
}

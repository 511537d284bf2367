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
import type { BooleanData, MaskLike } from "./types/attention.ts";
import type { Shape, TensorLike } from "./types/tensor.ts";

/** A checked mask, read as [batch, heads, lq, lk] with stride 0 on each axis that it broadcasts. */
export interface Mask {
  /** An additive mask is a float32 operand; a boolean one is bytes. */
  readonly additive: Operand | undefined;
  readonly bytes: BooleanData | undefined;
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

/** Boolean data as an array of bytes or booleans, or undefined where it is neither. */
function asBoolean(fn: string, data: unknown): BooleanData | undefined {
  if (isByteArray(data)) return data;
  if (!Array.isArray(data)) return undefined;
  const wrong = data.findIndex((value) => typeof value !== "boolean");
  if (wrong >= 0) {
    throw new TypeError(
      `${fn}: attnMask.data as an array must hold true and false only, got ${describe(data[wrong])} at ${wrong}; ` +
        "numbers take a Uint8Array (non-zero = attend) or a Float32Array (added to the scores)",
    );
  }
  return data as boolean[];
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
    const bytes = asBoolean(fn, mask.data);
    if (bytes !== undefined) {
      checkLength(fn, "attnMask", bytes.length, shape, isByteArray(bytes) ? bytes.buffer : undefined);
      const byteAddress = ArrayBuffer.isView(bytes)
        ? liveAddressOf(core, fn, "attnMask", bytes as Uint8Array)
        : -1;
      return {
        additive: undefined,
        bytes,
        byteLength: bytes.length,
        byteAddress,
        ...broadcastMask(fn, shape, target),
      };
    }
    if (Object.prototype.toString.call(mask.data) !== "[object Float32Array]") {
      throw new TypeError(
        `${fn}: attnMask.data must be a Uint8Array, Uint8ClampedArray or array of booleans (true or non-zero = attend), ` +
          `or a Float32Array (added to the scores), got ${describe(mask.data)}`,
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
  else if (ArrayBuffer.isView(bytes)) core.memory.u8.set(bytes as ArrayLike<number>, address);
  else for (let i = 0; i < bytes.length; i++) core.memory.u8[address + i] = bytes[i] ? 1 : 0;
  return address;
}

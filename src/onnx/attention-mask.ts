// attn_mask of Attention: what its type means, whether it broadcasts, and what is missing at its end.
import { describe, showShape, sizeOf } from "../shapes.ts";
import { checkLength, readShape } from "../tensor.ts";
import type { Shape } from "../types/tensor.ts";
import type { Call } from "./schema.ts";
import { readFloats, typedArrayName } from "./tensors.ts";

/** A checked mask: floats, which are added, or bytes, which say who attends. */
export interface OnnxMask {
  readonly data: Float32Array | Uint8Array;
  readonly shape: Shape;
  readonly isAdded: boolean;
}

const INTEGERS = ["Int8Array", "Int16Array", "Int32Array", "Uint32Array", "BigInt64Array", "BigUint64Array"];

/** Reads the data by its type. */
function readData(fn: string, value: unknown): OnnxMask {
  const shape = readShape(fn, "attn_mask", value);
  const { data, type } = value as { data: unknown; type?: unknown };
  const kind = typedArrayName(data);
  const isInteger =
    INTEGERS.includes(kind) ||
    (kind === "Uint8Array" && type === "uint8") ||
    (kind === "Uint16Array" && type === "uint16");
  const isBytes = !isInteger && (kind === "Uint8Array" || kind === "Uint8ClampedArray");
  if (!isInteger && !isBytes && !Array.isArray(data)) {
    const { data: floats } = readFloats(fn, "attn_mask", value);
    return { data: floats, shape, isAdded: true };
  }

  const array = data as ArrayLike<number | bigint | boolean>;
  checkLength(fn, "attn_mask", array.length, shape, ArrayBuffer.isView(data) ? data.buffer : undefined);
  if (isInteger) return { data: Float32Array.from(array, Number), shape, isAdded: true };
  if (isBytes) return { data: data as Uint8Array, shape, isAdded: false };
  const wrong = (data as unknown[]).findIndex((flag) => typeof flag !== "boolean");
  if (wrong >= 0) {
    throw new TypeError(
      `${fn}: attn_mask.data as an array must hold true and false only, got ${describe(array[wrong])} at ${wrong}`,
    );
  }
  return { data: Uint8Array.from(array, Number), shape, isAdded: false };
}

/** The mask with its last axis as long as the keys; what is added hides its key. */
function pad({ data, shape, isAdded }: OnnxMask, keys: number): OnnxMask {
  const length = shape.at(-1)!;
  const rows = sizeOf(shape.slice(0, -1));
  const padded = isAdded ? new Float32Array(rows * keys).fill(-Infinity) : new Uint8Array(rows * keys);
  for (let row = 0; row < rows; row++)
    padded.set(data.subarray(row * length, (row + 1) * length), row * keys);
  return { data: padded, shape: [...shape.slice(0, -1), keys], isAdded };
}

/**
 * Checks the mask against [batch, heads, queries, keys]. Before version 24 it broadcasts as in NumPy; from then on a last
 * axis shorter than the keys, of length 1 too, is filled up with keys that are masked, and it must reach the `longest`
 * of nonpad_kv_seqlen.
 */
export function readMask(call: Call, target: Shape, longest: number): OnnxMask | undefined {
  const { fn, schema, inputs } = call;
  if (inputs.attn_mask === undefined) return undefined;
  const mask = readData(fn, inputs.attn_mask);
  const { shape } = mask;
  const keys = target[3]!;
  const length = shape.at(-1);
  const mayBeShort = call.since >= 24;
  const fits = shape.every((n, axis) => {
    const wanted = target[axis - shape.length + 4];
    const isLast = axis === shape.length - 1;
    return isLast && mayBeShort ? n <= keys : n === wanted || n === 1;
  });
  if (length === undefined || shape.length > 4 || !fits) {
    const or = mayBeShort ? ", or be shorter in the last axis" : "";
    throw new RangeError(
      `${fn}: attn_mask of ${schema} must broadcast to [batch, heads, queries, keys] = ${showShape(target)}${or}, ` +
        `got ${showShape(shape)}`,
    );
  }
  if (!mayBeShort || length === keys) return mask;
  if (length < longest) {
    throw new RangeError(
      `${fn}: the last axis of attn_mask must reach the largest of nonpad_kv_seqlen, got ${length} and ${longest}`,
    );
  }
  return pad(mask, keys);
}

// The tensors that ONNX operators take, in the forms that JavaScript has for their types: checked, and brought to float32
// or to numbers.
import { describe } from "../shapes.ts";
import { checkLength, readShape } from "../tensor.ts";
import type { Shape } from "../types/tensor.ts";

/** A checked float32 tensor. */
export interface Floats {
  readonly data: Float32Array;
  readonly shape: Shape;
}

/** A checked tensor of integers. */
export interface Integers {
  readonly data: readonly number[];
  readonly shape: Shape;
}

/** What kind of array the value is, "Float32Array" say, or "" where it is no typed array. Knows other realms. */
export function typedArrayName(value: unknown): string {
  if (value instanceof Float32Array) return "Float32Array"; // the common case at a tenth of the cost
  return ArrayBuffer.isView(value) ? Object.prototype.toString.call(value).slice(8, -1) : "";
}

const HALF_POWERS = Float64Array.from({ length: 31 }, (_, exponent) => 2 ** (Math.max(exponent, 1) - 25));

/** The number whose float16 bits these are: sign, 5 bits of exponent, 10 of fraction. */
function widen(bits: number): number {
  const sign = bits & 0x8000 ? -1 : 1;
  const exponent = (bits >>> 10) & 31;
  const fraction = bits & 1023;
  if (exponent === 31) return fraction === 0 ? sign * Infinity : NaN;
  return sign * ((exponent === 0 ? 0 : 1024) + fraction) * HALF_POWERS[exponent]!;
}

/**
 * Checks a tensor of floats and widens float16. The data of a float32 tensor is read anew at each access, so that a
 * resident one, whose view growth detaches, may be read again after a call.
 */
export function readFloats(fn: string, name: string, value: unknown): Floats {
  const shape = readShape(fn, name, value);
  const source = value as { readonly data: unknown; readonly type?: unknown };
  const { data, type } = source;
  const kind = typedArrayName(data);
  const isBits = kind === "Uint16Array" && (type === undefined || type === "float16");
  if (kind !== "Float32Array" && kind !== "Float16Array" && !isBits) {
    const hint = kind === "Float64Array" ? "; float64 is not computed" : "";
    throw new TypeError(
      `${fn}: ${name}.data must be a Float32Array, or float16 as a Float16Array or as bits in a Uint16Array, ` +
        `got ${describe(data)}${kind === "Uint16Array" ? ` of type ${describe(type)}` : hint}`,
    );
  }
  const array = data as Float32Array;
  checkLength(fn, name, array.length, shape, array.buffer);
  if (kind === "Float32Array") {
    return {
      shape,
      get data() {
        return source.data as Float32Array;
      },
    };
  }
  return { shape, data: isBits ? Float32Array.from(array, widen) : Float32Array.from(array) };
}

/** Checks a tensor of int64 in any of its forms. */
export function readIntegers(fn: string, name: string, value: unknown): Integers {
  const shape = readShape(fn, name, value);
  const { data } = value as { readonly data: unknown };
  const kind = typedArrayName(data);
  if (kind !== "BigInt64Array" && kind !== "Int32Array" && !Array.isArray(data)) {
    throw new TypeError(
      `${fn}: ${name}.data must be a BigInt64Array, an Int32Array or an array of integers, got ${describe(data)}`,
    );
  }
  const array = data as ArrayLike<number | bigint>;
  checkLength(fn, name, array.length, shape, ArrayBuffer.isView(data) ? data.buffer : undefined);
  const numbers = Array.from(array, (n) => (typeof n === "bigint" ? Number(n) : n));
  const wrong = numbers.findIndex((n) => !Number.isSafeInteger(n));
  if (wrong >= 0) {
    throw new (typeof array[wrong] === "number" ? RangeError : TypeError)(
      `${fn}: ${name}.data must hold integers, got ${describe(array[wrong])} at ${wrong}`,
    );
  }
  return { data: numbers, shape };
}

/** The same data with other axes. */
export function reshape(source: Floats, shape: Shape): Floats {
  return {
    shape,
    get data() {
      return source.data;
    },
  };
}

/** [b, m, n, width] to [b, n, m, width]; the same data where that moves nothing. */
export function swapMiddle(x: Floats): Floats {
  const [b, m, n, width] = x.shape as [number, number, number, number];
  const shape = [b, n, m, width];
  if (m === 1 || n === 1) return reshape(x, shape);
  const from = x.data;
  const data = new Float32Array(from.length);
  let at = 0;
  for (let bi = 0; bi < b; bi++) {
    for (let ni = 0; ni < n; ni++) {
      for (let mi = 0; mi < m; mi++, at += width) {
        const row = ((bi * m + mi) * n + ni) * width;
        data.set(from.subarray(row, row + width), at);
      }
    }
  }
  return { data, shape };
}

/** Joins [b, h, l1, width] and [b, h, l2, width] along the lengths, into memory of its own. */
export function concatLengths(first: Floats, second: Floats): { data: Float32Array; shape: number[] } {
  const [b, h, l1, width] = first.shape as [number, number, number, number];
  const l2 = second.shape[2]!;
  const { data: one } = first;
  const { data: two } = second;
  const data = new Float32Array(b * h * (l1 + l2) * width);
  for (let bh = 0, at = 0; bh < b * h; bh++, at += (l1 + l2) * width) {
    data.set(one.subarray(bh * l1 * width, (bh + 1) * l1 * width), at);
    data.set(two.subarray(bh * l2 * width, (bh + 1) * l2 * width), at + l1 * width);
  }
  return { data, shape: [b, h, l1 + l2, width] };
}

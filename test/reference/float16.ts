import { ulp16 } from "./compare.ts";
import type { TestTensor } from "./random.ts";

/** What a pattern of 16 bits stands for: sign, 5 bits of exponent, 10 of fraction (IEEE 754 binary16). */
export function fromHalf(pattern: number): number {
  const sign = pattern & 0x8000 ? -1 : 1;
  const exponent = (pattern >> 10) & 31;
  const fraction = pattern & 1023;
  if (exponent === 31) return fraction ? Number.NaN : sign * Number.POSITIVE_INFINITY;
  return sign * (exponent === 0 ? fraction * 2 ** -24 : (1 + fraction / 1024) * 2 ** (exponent - 15));
}

/** The pattern of the half that is x; found by halving, not by the arithmetic of a conversion that it is to check. */
export function toHalf(x: number): number {
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  if (Number.isNaN(x)) return 0x7e00;
  if (Math.abs(x) === Number.POSITIVE_INFINITY) return sign | 0x7c00;
  let [mantissa, exponent] = [Math.abs(x) * 2 ** 24, 1];
  while (mantissa >= 2048) [mantissa, exponent] = [mantissa / 2, exponent + 1];
  if (!Number.isInteger(mantissa)) throw new Error(`${x} is no float16`);
  return sign | (mantissa < 1024 ? mantissa : (exponent << 10) | (mantissa - 1024));
}

/** The nearest half, of two equally near the even one; what is beyond the largest, 65504, is infinite. */
export function roundHalf(x: number): number {
  if (x === 0 || !Number.isFinite(x)) return x;
  const step = ulp16(x);
  const quotient = x / step;
  const below = Math.floor(quotient);
  const up = quotient - below > 0.5 || (quotient - below === 0.5 && below % 2 !== 0);
  const rounded = (up ? below + 1 : below) * step;
  return Math.abs(rounded) > 65504 ? Math.sign(x) * Number.POSITIVE_INFINITY : rounded;
}

/** A tensor as a float16 cache keeps it. */
export const halfTensor = ({
  data,
  shape,
}: {
  data: Float32Array;
  shape: readonly number[];
}): TestTensor => ({
  data: data.map(roundHalf),
  shape: [...shape],
});

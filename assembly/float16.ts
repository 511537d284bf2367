// Half precision (IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction) as 16-bit patterns: storage only.
//
//   widen: n patterns to float32, times `factor` and 2^-112: with REBIAS (half-rows.ts) exactly what they stand for,
//     subnormals, signed zeros, infinities and NaN among them.
//   narrow: n float32 to patterns, rounded to nearest even, subnormals kept; 65520 and more is Infinity, NaN is NaN.
//     False if one of them is Infinity or NaN.
// widen reads up to 14 bytes past the last pattern and writes whole vectors: n rounded up to 8 floats. narrow reads and
// writes exactly. No scratch; from and to may not overlap.
import { loadPartial } from "./simd";

/**
 * The fields of a half, moved into place, are a float32 whose exponent is 112 too small: a product puts that right, and
 * is exact, also for subnormals. The upper and lower halves of eight results are made side by side, then interleaved.
 */
export function widen(n: i32, factor: f32, from: usize, to: usize): void {
  const rebias = f32x4.splat(factor);
  const magnitude = i16x8.splat(0x7fff), largest = i16x8.splat(0x7bff);
  const signAndTop = i16x8.splat(<i16>0x8fff), infinity = i16x8.splat(0x7f80);
  for (const end = from + (<usize>n << 1); from < end; from += 16, to += 32) {
    const half = v128.load(from);
    const special = i16x8.gt_s(v128.and(half, magnitude), largest); // Infinity and NaN
    const top = v128.or(v128.and(i16x8.shr_s(half, 3), signAndTop), v128.and(special, infinity));
    const bottom = i16x8.shl(half, 13);
    v128.store(to, f32x4.mul(i16x8.shuffle(bottom, top, 0, 8, 1, 9, 2, 10, 3, 11), rebias));
    v128.store(to, f32x4.mul(i16x8.shuffle(bottom, top, 4, 12, 5, 13, 6, 14, 7, 15), rebias), 16);
  }
}

/**
 * Four patterns in 32-bit lanes. The adder does the rounding: to |x| comes a power of two so much larger that what is
 * left of x in the sum are the ten bits of fraction, rounded; the exponent of that power is that of x, or for
 * subnormals the least (Maratyszcza's FP16).
 */
@inline
function narrowFour(x: v128): v128 {
  const twice = i32x4.shl(x, 1);
  const bias = i32x4.max_u(v128.and(twice, i32x4.splat(<i32>0xff000000)), i32x4.splat(0x71000000));
  const toInfinity = f32x4.splat(5.192296858534828e33); // 2^112: what no half can hold overflows
  const back = f32x4.splat(7.703719777548943e-34); // 2^-110
  const power = i32x4.add(i32x4.shr_u(bias, 1), i32x4.splat(0x07800000));
  const sum = f32x4.add(power, f32x4.mul(f32x4.mul(f32x4.abs(x), toInfinity), back));
  const exponent = v128.and(i32x4.shr_u(sum, 13), i32x4.splat(0x7c00));
  const rounded = i32x4.add(exponent, v128.and(sum, i32x4.splat(0x0fff)));
  const nan = i32x4.gt_u(twice, i32x4.splat(<i32>0xff000000));
  const pattern = v128.bitselect(i32x4.splat(0x7e00), rounded, nan);
  return v128.or(pattern, v128.and(i32x4.shr_u(x, 16), i32x4.splat(0x8000)));
}

export function narrow(n: i32, from: usize, to: usize): bool {
  const infinity = i32x4.splat(0x7c00);
  let special = i32x4.splat(0), i = n;
  for (; i >= 4; i -= 4, from += 16, to += 8) {
    const four = narrowFour(v128.load(from));
    special = v128.or(special, i32x4.eq(v128.and(four, infinity), infinity));
    v128.store64_lane(to, i16x8.narrow_i32x4_u(four, four), 0);
  }
  if (i == 0) return !v128.any_true(special);
  const four = narrowFour(loadPartial(from, i, i32x4.splat(0)));
  special = v128.or(special, i32x4.eq(v128.and(four, infinity), infinity));
  v128.store16_lane(to, four, 0);
  if (i > 1) v128.store16_lane(to, four, 2, 2);
  if (i > 2) v128.store16_lane(to, four, 4, 4);
  return !v128.any_true(special);
}

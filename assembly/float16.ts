// Half precision (IEEE 754 binary16: sign, 5 bits of exponent, 10 of fraction) as 16-bit patterns: storage only.
//
//   widen: n patterns to float32, exactly: subnormals, signed zeros, infinities and NaN come out as what they are.
//   widenFinite: the same times factor * 2^-112, where none is Infinity or NaN: the fields move into place, no more. It
//     takes a third of the time, but subnormals are those of float32 on the way, with which engines are much slower.
//   narrow: n float32 to patterns, rounded to nearest even, subnormals kept; 65520 and more is Infinity, NaN is NaN.
//     Returns the number of subnormals among them, or SPECIAL if one is Infinity or NaN.
// widen and widenFinite read up to 14 bytes past the last pattern and write whole vectors: n rounded up to 8 floats.
// narrow reads and writes exactly. No scratch; from and to may not overlap. n = 0 does nothing.
// Exact both ways: every pattern, and the ties and ends of rounding, are in test/float16.test.ts.
import { loadGroup } from "./simd";

@inline export const SPECIAL: i32 = -1;

/** 2^112: a half whose fields are moved into place is a float32 this much too small. */
@inline export const REBIAS: f32 = 5.192296858534828e33;

/** Vectors of 16-bit lanes interleaved: the first, or the last, four floats with these lower and upper halves. */
@inline
export function firstFloats(bottom: v128, top: v128): v128 {
  return i16x8.shuffle(bottom, top, 0, 8, 1, 9, 2, 10, 3, 11);
}

@inline
export function lastFloats(bottom: v128, top: v128): v128 {
  return i16x8.shuffle(bottom, top, 4, 12, 5, 13, 6, 14, 7, 15);
}

/**
 * The fields move into place, and 112 is added to the exponent, for Infinity and NaN twice. A subnormal is read with a
 * leading one that it does not have, at the exponent where that is 2^-14, which is then subtracted.
 */
export function widen(n: i32, from: usize, to: usize): void {
  const magnitudeMask = i16x8.splat(0x7fff), signMask = i16x8.splat(i16.MIN_VALUE), none = i16x8.splat(0);
  const largest = i16x8.splat(0x7bff), leastNormal = i16x8.splat(0x0400);
  const rebias = i16x8.splat(0x3800), one = i16x8.splat(0x0080), power = i16x8.splat(0x3880);
  for (const end = from + (<usize>n << 1); from < end; from += 16, to += 32) {
    const half = v128.load(from), magnitude = v128.and(half, magnitudeMask), sign = v128.and(half, signMask);
    const subnormal = i16x8.lt_s(magnitude, leastNormal), special = i16x8.gt_s(magnitude, largest);
    let top = i16x8.add(i16x8.shr_u(magnitude, 3), rebias);
    top = i16x8.add(top, v128.or(v128.and(subnormal, one), v128.and(special, rebias)));
    const bottom = i16x8.shl(half, 13), leading = v128.and(subnormal, power);
    const x0 = f32x4.sub(firstFloats(bottom, top), firstFloats(none, leading));
    const x1 = f32x4.sub(lastFloats(bottom, top), lastFloats(none, leading));
    v128.store(to, v128.or(x0, firstFloats(none, sign)));
    v128.store(to, v128.or(x1, lastFloats(none, sign)), 16);
  }
}

export function widenFinite(n: i32, factor: f32, from: usize, to: usize): void {
  const fields = i32x4.splat(<i32>0x8fffe000), times = f32x4.splat(factor);
  for (const end = from + (<usize>n << 1); from < end; from += 16, to += 32) {
    v128.store(to, f32x4.mul(v128.and(i32x4.shl(v128.load16x4_s(from), 13), fields), times));
    v128.store(to, f32x4.mul(v128.and(i32x4.shl(v128.load16x4_s(from, 8), 13), fields), times), 16);
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
  const toInfinity = f32x4.splat(REBIAS); // what no half can hold overflows
  const back = f32x4.splat(7.703719777548943e-34); // 2^-110
  const power = i32x4.add(i32x4.shr_u(bias, 1), i32x4.splat(0x07800000));
  const sum = f32x4.add(power, f32x4.mul(f32x4.mul(f32x4.abs(x), toInfinity), back));
  const exponent = v128.and(i32x4.shr_u(sum, 13), i32x4.splat(0x7c00));
  const rounded = i32x4.add(exponent, v128.and(sum, i32x4.splat(0x0fff)));
  const nan = i32x4.gt_u(twice, i32x4.splat(<i32>0xff000000));
  const pattern = v128.bitselect(i32x4.splat(0x7e00), rounded, nan);
  return v128.or(pattern, v128.and(i32x4.shr_u(x, 16), i32x4.splat(0x8000)));
}

/** -1 in the lanes whose pattern is subnormal. */
@inline
function areSubnormal(patterns: v128): v128 {
  const magnitude = v128.and(patterns, i32x4.splat(0x7fff));
  return v128.andnot(i32x4.lt_s(magnitude, i32x4.splat(0x0400)), i32x4.eq(magnitude, i32x4.splat(0)));
}

export function narrow(n: i32, from: usize, to: usize): i32 {
  const infinity = i32x4.splat(0x7c00);
  let special = i32x4.splat(0), subnormal = special;
  for (let i = n; i > 0; i -= 4, from += 16, to += 8) {
    const four = narrowFour(loadGroup(from, min(i, 4)));
    special = v128.or(special, i32x4.eq(v128.and(four, infinity), infinity));
    subnormal = i32x4.sub(subnormal, areSubnormal(four));
    if (i >= 4) {
      v128.store64_lane(to, i16x8.narrow_i32x4_u(four, four), 0);
      continue;
    }
    v128.store16_lane(to, four, 0);
    if (i > 1) v128.store16_lane(to, four, 2, 2);
    if (i > 2) v128.store16_lane(to, four, 4, 4);
  }
  if (v128.any_true(special)) return SPECIAL;
  return i32x4.extract_lane(subnormal, 0) + i32x4.extract_lane(subnormal, 1)
    + i32x4.extract_lane(subnormal, 2) + i32x4.extract_lane(subnormal, 3);
}

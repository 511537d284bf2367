// Vector operations the kernels are written in. This file alone decides whether multiply-add is fused: in the relaxed
// build where the engine fuses relaxed_madd, never in the plain one, where it is rounded twice.

/** a * b + c. */
@inline
export function fma(a: v128, b: v128, c: v128): v128 {
  return ASC_FEATURE_RELAXED_SIMD ? f32x4.relaxed_madd(a, b, c) : f32x4.add(f32x4.mul(a, b), c);
}

/** Lane 0 + 1 + 2 + 3, as (0 + 2) + (1 + 3). */
@inline
export function hsum(v: v128): f32 {
  const pairs = f32x4.add(v, i32x4.shuffle(v, v, 2, 3, 0, 1));
  return f32x4.extract_lane(pairs, 0) + f32x4.extract_lane(pairs, 1);
}

/** Dot product of two contiguous rows of n, summed in the order of the register tile: one after the other. */
export function dot(n: i32, x: usize, y: usize): f32 {
  let sum = f32x4.splat(0);
  for (const end = x + (<usize>n << 2); x < end; x += 4, y += 4) {
    sum = fma(v128.load32_splat(x), v128.load32_splat(y), sum);
  }
  return f32x4.extract_lane(sum, 0);
}

/** Largest lane, NaN passed over. */
@inline
export function hmax(v: v128): f32 {
  const pairs = f32x4.pmax(v, i32x4.shuffle(v, v, 2, 3, 0, 1));
  const first = f32x4.extract_lane(pairs, 0), second = f32x4.extract_lane(pairs, 1);
  return first < second ? second : first;
}

/** The first `count` (1 to 3) floats at p, the other lanes from `fill`. */
@inline
export function loadPartial(p: usize, count: i32, fill: v128): v128 {
  let v = v128.load32_lane(p, fill, 0);
  if (count > 1) v = v128.load32_lane(p, v, 1, 4);
  if (count > 2) v = v128.load32_lane(p, v, 2, 8);
  return v;
}

/** Stores the first `count` (1 to 3) lanes at p. */
@inline
export function storePartial(p: usize, v: v128, count: i32): void {
  v128.store32_lane(p, v, 0);
  if (count > 1) v128.store32_lane(p, v, 1, 4);
  if (count > 2) v128.store32_lane(p, v, 2, 8);
}

/** The first `count` (1 to 3) floats at p, the other lanes 0. A function: 20 copies would be 1 KB of the binary. */
function loadFew(p: usize, count: i32): v128 {
  return loadPartial(p, count, f32x4.splat(0));
}

/** storePartial as a function, likewise. */
function storeFew(p: usize, v: v128, count: i32): void {
  storePartial(p, v, count);
}

/** The first `count` (1 to 4) floats at p, the other lanes 0. */
@inline
export function loadGroup(p: usize, count: i32): v128 {
  return count == 4 ? v128.load(p) : loadFew(p, count);
}

/** Stores the first `count` (1 to 4) lanes at p. */
@inline
export function storeGroup(p: usize, v: v128, count: i32): void {
  if (count == 4) v128.store(p, v);
  else storeFew(p, v, count);
}

/** The first `count` (1 to 3) lanes, the others 0. */
@inline
export function firstLanes(v: v128, count: i32): v128 {
  const lanes = i32x4(0, 1, 2, 3);
  return v128.and(v, i32x4.lt_s(lanes, i32x4.splat(count)));
}

/**
 * Transposes the 4 x 4 block held in rows r0..r3 and stores its columns at p, `stride` bytes apart. `isPacked`, a
 * literal: they are 32 bytes apart, whatever `stride`, by immediate offsets (a quarter fewer instructions in pack.ts).
 */
@inline
export function storeTransposed4(
  isPacked: bool, p: usize, stride: usize, r0: v128, r1: v128, r2: v128, r3: v128,
): void {
  const lo01 = i32x4.shuffle(r0, r1, 0, 4, 1, 5);
  const hi01 = i32x4.shuffle(r0, r1, 2, 6, 3, 7);
  const lo23 = i32x4.shuffle(r2, r3, 0, 4, 1, 5);
  const hi23 = i32x4.shuffle(r2, r3, 2, 6, 3, 7);
  v128.store(p, i64x2.shuffle(lo01, lo23, 0, 2));
  if (isPacked) {
    v128.store(p, i64x2.shuffle(lo01, lo23, 1, 3), 32);
    v128.store(p, i64x2.shuffle(hi01, hi23, 0, 2), 64);
    v128.store(p, i64x2.shuffle(hi01, hi23, 1, 3), 96);
  } else {
    v128.store(p + stride, i64x2.shuffle(lo01, lo23, 1, 3));
    v128.store(p + 2 * stride, i64x2.shuffle(hi01, hi23, 0, 2));
    v128.store(p + 3 * stride, i64x2.shuffle(hi01, hi23, 1, 3));
  }
}

/** True if no element of `rows` rows of n floats is NaN or Infinity: those times 0 are NaN. */
export function allFinite(rows: i32, n: i32, v: usize, rowV: usize): bool {
  const zero = f32x4.splat(0);
  let s0 = zero, s1 = zero, s2 = zero, s3 = zero; // one sum would wait for itself
  for (let i = 0; i < rows; ++i, v += rowV) {
    let j = 0;
    for (; j + 16 <= n; j += 16) {
      const at = v + (<usize>j << 2);
      s0 = f32x4.add(s0, f32x4.mul(v128.load(at), zero));
      s1 = f32x4.add(s1, f32x4.mul(v128.load(at, 16), zero));
      s2 = f32x4.add(s2, f32x4.mul(v128.load(at, 32), zero));
      s3 = f32x4.add(s3, f32x4.mul(v128.load(at, 48), zero));
    }
    for (; j < n; j += 4) s0 = f32x4.add(s0, f32x4.mul(loadGroup(v + (<usize>j << 2), min(4, n - j)), zero));
  }
  const sum = f32x4.add(f32x4.add(s0, s1), f32x4.add(s2, s3));
  return !v128.any_true(f32x4.ne(sum, sum));
}

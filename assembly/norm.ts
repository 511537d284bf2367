// Layer norm and RMS norm: rows brought to mean 0 and variance 1, or to root mean square 1.
//
//   LAYER_NORM   y_j = (x_j - mean) * rstd * weight_j + bias_j,  rstd = 1 / sqrt(sum_j (x_j - mean)^2 / n + eps)
//   RMS_NORM     the same with mean = 0
// x, y: [rows, n], contiguous; y may be x. weight, bias: [n], or 0 for none. mean, rstd: [rows], or 0 for not wanted.
// Work range [begin, end): rows. No scratch. Three passes over a row (mean; centred squares; y), the last two in cache.
// Ends: NaN or Infinity in a row makes it NaN, but RMS_NORM makes the finite elements of a row with Infinity 0.
//   n = 0 writes no y; its mean and rstd are 0 / 0, NaN. A constant row is bias; with eps = 0 it is NaN.
// Accuracy: sums and statistics in float64, the mean subtracted in two parts, so that neither the length of a row nor
//   a mean far from 0 costs digits, and no square overflows: at most twice the error of plain float32
//   (test/norm.test.ts).
import { firstLanes, fma, loadGroup, loadPartial, storeGroup } from "./simd";

export const LAYER_NORM: i32 = 0;
export const RMS_NORM: i32 = 1;

/** The upper two lanes where promote_low takes them from. */
@inline
function upper(v: v128): v128 {
  return i64x2.shuffle(v, v, 1, 1);
}

@inline
function addSquares(sum: v128, pair: v128): v128 {
  const d = f64x2.promote_low_f32x4(pair);
  return f64x2.add(sum, f64x2.mul(d, d));
}

@inline
function sum4(s0: v128, s1: v128, s2: v128, s3: v128): f64 {
  const s = f64x2.add(f64x2.add(s0, s2), f64x2.add(s1, s3));
  return f64x2.extract_lane(s, 0) + f64x2.extract_lane(s, 1);
}

/** Sum of x in eight partial sums. */
function sum(n: i32, x: usize): f64 {
  let s0 = f64x2.splat(0), s1 = s0, s2 = s0, s3 = s0;
  let j = 0;
  for (; j + 8 <= n; j += 8, x += 32) {
    const a = v128.load(x), b = v128.load(x, 16);
    s0 = f64x2.add(s0, f64x2.promote_low_f32x4(a));
    s1 = f64x2.add(s1, f64x2.promote_low_f32x4(upper(a)));
    s2 = f64x2.add(s2, f64x2.promote_low_f32x4(b));
    s3 = f64x2.add(s3, f64x2.promote_low_f32x4(upper(b)));
  }
  for (; j < n; j += 4, x += 16) {
    const a = loadGroup(x, min(4, n - j));
    s0 = f64x2.add(s0, f64x2.promote_low_f32x4(a));
    s1 = f64x2.add(s1, f64x2.promote_low_f32x4(upper(a)));
  }
  return sum4(s0, s1, s2, s3);
}

/** x - mean, for four elements. What is left of x - high needs the digits of the mean that high has not. */
@inline
function centred(x: v128, high: v128, low: v128): v128 {
  return f32x4.sub(f32x4.sub(x, high), low);
}

/** Sum of (x - mean)^2 in eight partial sums, in the order of `sum`. */
function centredSquares(n: i32, x: usize, high: v128, low: v128): f64 {
  let s0 = f64x2.splat(0), s1 = s0, s2 = s0, s3 = s0;
  let j = 0;
  for (; j + 8 <= n; j += 8, x += 32) {
    const a = centred(v128.load(x), high, low), b = centred(v128.load(x, 16), high, low);
    s0 = addSquares(s0, a);
    s1 = addSquares(s1, upper(a));
    s2 = addSquares(s2, b);
    s3 = addSquares(s3, upper(b));
  }
  for (; j < n; j += 4, x += 16) {
    const count = min(4, n - j);
    const d = centred(loadGroup(x, count), high, low);
    const a = count == 4 ? d : firstLanes(d, count); // the missing lanes are minus the mean
    s0 = addSquares(s0, a);
    s1 = addSquares(s1, upper(a));
  }
  return sum4(s0, s1, s2, s3);
}

/** Four elements of y. */
@inline
function transformed(x: v128, high: v128, low: v128, factor: v128, weight: v128, bias: v128): v128 {
  return fma(f32x4.mul(centred(x, high, low), factor), weight, bias);
}

/** The third pass. Without a weight each element is times 1, which is exact; without a bias plus -0, likewise. */
function transformRow(n: i32, x: usize, y: usize, high: v128, low: v128, rstd: f32, weight: usize, bias: usize): void {
  const factor = f32x4.splat(rstd);
  let w = f32x4.splat(1), b = f32x4.splat(-0.0);
  let j = 0;
  for (; j + 4 <= n; j += 4) {
    const at = <usize>j << 2;
    if (weight != 0) w = v128.load(weight + at);
    if (bias != 0) b = v128.load(bias + at);
    v128.store(y + at, transformed(v128.load(x + at), high, low, factor, w, b));
  }
  if (j < n) {
    const at = <usize>j << 2;
    const count = n - j;
    if (weight != 0) w = loadPartial(weight + at, count, w);
    if (bias != 0) b = loadPartial(bias + at, count, b);
    storeGroup(y + at, transformed(loadGroup(x + at, count), high, low, factor, w, b), count);
  }
}

/** Rows [begin, end) of x into y, and their statistics where mean or rstd is not 0. */
export function norm(
  mode: i32, n: i32, eps: f64, x: usize, weight: usize, bias: usize, y: usize, mean: usize, rstd: usize,
  begin: i32, end: i32,
): void {
  assert(0 <= begin && begin <= end, "norm: work range");
  const stride = <usize>n << 2;
  for (let i = begin; i < end; ++i) {
    const row = x + <usize>i * stride;
    const m = mode == RMS_NORM ? <f64>0 : sum(n, row) / <f64>n;
    const high = <f32>m;
    const low = f32x4.splat(<f32>(m - <f64>high));
    const variance = centredSquares(n, row, f32x4.splat(high), low) / <f64>n;
    const r = <f32>(1 / sqrt<f64>(variance + eps));
    transformRow(n, row, y + <usize>i * stride, f32x4.splat(high), low, r, weight, bias);
    if (mean != 0) f32.store(mean + (<usize>i << 2), high);
    if (rstd != 0) f32.store(rstd + (<usize>i << 2), r);
  }
}

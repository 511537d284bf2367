// The softmax family over one axis, by log-sum-exp with the maximum subtracted: it never overflows.
//
//   softmax       y_j = exp(x_j - max) / sum_k exp(x_k - max)
//   logSoftmax    y_j = (x_j - max) - log sum_k exp(x_k - max)
//   logSumExp     y   = max + log sum_k exp(x_k - max)
// x: [outer, n, inner], row-major, the axis in the middle; y the same shape, logSumExp [outer, inner]. y may be x.
// `mode` says which. `*Rows` is inner = 1 (rows contiguous: lanes run along the axis), `*Columns` any inner (lanes run
// along inner).
// Work range [begin, end): rows, or for columns outer * ceil(inner / 4) groups of lanes. No scratch.
// Ends: n = 0 writes nothing (logSumExp -Infinity); a row of -Infinity alone, or with +Infinity or NaN in it, is NaN
//   as in torch, its logSumExp -Infinity, +Infinity or NaN.
// Accuracy: exp within 1.5 ulp, sums in eight partial sums (rows) or in order (columns), log in float64: at most twice
//   the error of plain float32 (test/softmax.test.ts).
// Order per row depends on n alone. Three passes over it (max; exp and sum; scale): after the first it is in cache.
import { SMALLEST_NORMAL, expNonPositive, expSubMaxPair } from "./exp";
import { log, maxPlusLog } from "./log";
import { scale } from "./scale";
import { firstLanes, hmax, hsum, loadGroup, loadPartial, storeGroup } from "./simd";

export const SOFTMAX: i32 = 0;
export const LOG_SOFTMAX: i32 = 1;
export const LOG_SUM_EXP: i32 = 2;

/** max + log(sum). An infinite maximum is the answer itself, unless there is a NaN, which the maximum passed over. */
function logSumExp(rowMax: f32, rowSum: f32, n: i32, x: usize, stride: usize): f32 {
  if (abs(rowMax) != Infinity) return maxPlusLog(rowMax, rowSum);
  for (let j = 0; j < n; ++j, x += stride) {
    if (isNaN(f32.load(x))) return NaN;
  }
  return rowMax;
}

/** Largest element, NaN passed over (pmax is one instruction, max eight): it shows in the sum of the exponentials. */
function rowMaximum(n: i32, x: usize): f32 {
  let m0 = f32x4.splat(-Infinity), m1 = m0;
  let j = 0;
  for (; j + 8 <= n; j += 8, x += 32) {
    m0 = f32x4.pmax(m0, v128.load(x));
    m1 = f32x4.pmax(m1, v128.load(x, 16));
  }
  if (j + 4 <= n) {
    m0 = f32x4.pmax(m0, v128.load(x));
    j += 4;
    x += 16;
  }
  if (j < n) m1 = f32x4.pmax(m1, loadPartial(x, n - j, m1));
  return hmax(f32x4.pmax(m0, m1));
}

/** Sum of exp(x - max). */
function expSubMaxSum(n: i32, x: usize, rowMax: f32): f32 {
  const m = f32x4.splat(rowMax);
  let s0 = f32x4.splat(0), s1 = s0;
  let j = 0;
  for (; j + 8 <= n; j += 8, x += 32) {
    s0 = f32x4.add(s0, expNonPositive(f32x4.sub(v128.load(x), m), SMALLEST_NORMAL));
    s1 = f32x4.add(s1, expNonPositive(f32x4.sub(v128.load(x, 16), m), SMALLEST_NORMAL));
  }
  for (; j < n; j += 4, x += 16) s0 = f32x4.add(s0, expSubMaxEdge(n - j, x, m));
  return hsum(f32x4.add(s0, s1));
}

/** Up to four terms; lanes past the row are 0. */
function expSubMaxEdge(count: i32, x: usize, m: v128): v128 {
  if (count >= 4) return expNonPositive(f32x4.sub(v128.load(x), m), SMALLEST_NORMAL);
  const e = expNonPositive(f32x4.sub(loadPartial(x, count, f32x4.splat(-Infinity)), m), SMALLEST_NORMAL);
  return firstLanes(e, count); // where the maximum is -Infinity the missing lanes are NaN
}

/** y = exp(x - max), and the sum, in the same order. */
function expSubMaxStore(n: i32, x: usize, y: usize, rowMax: f32): f32 {
  const m = f32x4.splat(rowMax);
  let s0 = f32x4.splat(0), s1 = s0;
  let j = 0;
  for (; j + 8 <= n; j += 8, x += 32, y += 32) {
    expSubMaxPair(x, y, m, m, SMALLEST_NORMAL, false);
    s0 = f32x4.add(s0, v128.load(y));
    s1 = f32x4.add(s1, v128.load(y, 16));
  }
  for (; j < n; j += 4, x += 16, y += 16) {
    const e = expSubMaxEdge(n - j, x, m);
    storeGroup(y, e, min(4, n - j));
    s0 = f32x4.add(s0, e);
  }
  return hsum(f32x4.add(s0, s1));
}

/** y_j = (x_j - max) - shift. */
function shiftRow(n: i32, x: usize, y: usize, rowMax: f32, shift: f32): void {
  const m = f32x4.splat(rowMax), s = f32x4.splat(shift);
  for (let j = 0; j < n; j += 4, x += 16, y += 16) {
    const count = min(4, n - j);
    storeGroup(y, f32x4.sub(f32x4.sub(loadGroup(x, count), m), s), count);
  }
}

export function softmaxRows(mode: i32, n: i32, x: usize, y: usize, begin: i32, end: i32): void {
  assert(0 <= begin && begin <= end, "softmaxRows: work range");
  const stride = <usize>n << 2;
  const strideY = mode == LOG_SUM_EXP ? <usize>4 : stride;
  x += <usize>begin * stride;
  y += <usize>begin * strideY;
  for (let i = begin; i < end; ++i, x += stride, y += strideY) {
    const rowMax = rowMaximum(n, x);
    if (mode == SOFTMAX) {
      scale(<f32>1 / expSubMaxStore(n, x, y, rowMax), y, y, 0, n);
    } else {
      const rowSum = expSubMaxSum(n, x, rowMax);
      if (mode == LOG_SOFTMAX) shiftRow(n, x, y, rowMax, <f32>log(rowSum));
      else f32.store(y, logSumExp(rowMax, rowSum, n, x, 4));
    }
  }
}

@inline
function logLanes(v: v128): v128 {
  let r = f32x4.splat(<f32>log(f32x4.extract_lane(v, 0)));
  r = f32x4.replace_lane(r, 1, <f32>log(f32x4.extract_lane(v, 1)));
  r = f32x4.replace_lane(r, 2, <f32>log(f32x4.extract_lane(v, 2)));
  return f32x4.replace_lane(r, 3, <f32>log(f32x4.extract_lane(v, 3)));
}

/** logSumExp of `count` neighbouring columns. */
function storeLogSumExps(y: usize, m: v128, s: v128, n: i32, x: usize, stride: usize, count: i32): void {
  f32.store(y, logSumExp(f32x4.extract_lane(m, 0), f32x4.extract_lane(s, 0), n, x, stride));
  if (count > 1) f32.store(y, logSumExp(f32x4.extract_lane(m, 1), f32x4.extract_lane(s, 1), n, x + 4, stride), 4);
  if (count > 2) f32.store(y, logSumExp(f32x4.extract_lane(m, 2), f32x4.extract_lane(s, 2), n, x + 8, stride), 8);
  if (count > 3) f32.store(y, logSumExp(f32x4.extract_lane(m, 3), f32x4.extract_lane(s, 3), n, x + 12, stride), 12);
}

/** One group of up to four columns: x and y point at its first element, the axis advances by `stride` bytes. */
function column(mode: i32, n: i32, stride: usize, x: usize, y: usize, count: i32): void {
  let m = f32x4.splat(-Infinity), s = f32x4.splat(0);
  for (let j = 0, p = x; j < n; ++j, p += stride) m = f32x4.pmax(m, loadGroup(p, count));
  for (let j = 0, p = x, to = y; j < n; ++j, p += stride, to += stride) {
    const e = expNonPositive(f32x4.sub(loadGroup(p, count), m), SMALLEST_NORMAL);
    if (mode == SOFTMAX) storeGroup(to, e, count);
    s = f32x4.add(s, e);
  }
  if (mode == LOG_SUM_EXP) {
    storeLogSumExps(y, m, s, n, x, stride, count);
    return;
  }
  const factor = mode == SOFTMAX ? f32x4.div(f32x4.splat(1), s) : logLanes(s);
  for (let j = 0, p = x; j < n; ++j, p += stride, y += stride) {
    const v = mode == SOFTMAX
      ? f32x4.mul(loadGroup(y, count), factor)
      : f32x4.sub(f32x4.sub(loadGroup(p, count), m), factor);
    storeGroup(y, v, count);
  }
}

export function softmaxColumns(mode: i32, n: i32, inner: i32, x: usize, y: usize, begin: i32, end: i32): void {
  assert(0 <= begin && begin <= end, "softmaxColumns: work range");
  const groups = (inner + 3) >> 2;
  const stride = <usize>inner << 2;
  for (let w = begin; w < end; ++w) {
    const outer = <usize>(w / groups);
    const first = (w % groups) << 2;
    const from = x + outer * <usize>n * stride + (<usize>first << 2);
    const to = y + outer * <usize>(mode == LOG_SUM_EXP ? 1 : n) * stride + (<usize>first << 2);
    column(mode, n, stride, from, to, min(4, inner - first));
  }
}

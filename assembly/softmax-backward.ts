// Gradients of softmax and logSoftmax over one axis, from that of the result and the result y itself.
//
//   SOFTMAX       dx_j = y_j (dOut_j - sum_k dOut_k y_k)
//   LOG_SOFTMAX   dx_j = dOut_j - exp(y_j) sum_k dOut_k
// dOut, y, dx: [outer, n, inner], row-major, the axis in the middle; dx may be dOut or y. `*Rows` is inner = 1,
// `*Columns` any inner, as in softmax.ts.
// Work range [begin, end): rows, or for columns outer * ceil(inner / 4) groups of lanes. No scratch. n = 0: no writes.
// Ends: NaN and Infinity do what the formulas do with them: 0 * Infinity is NaN. exp(-Infinity) = 0.
// Accuracy: sums in eight partial sums (rows) or in order (columns), exp within 1.5 ulp: at most three times the error
//   of plain float32 (test/softmax-backward.test.ts). Order per row depends on n alone.
import { SMALLEST_NORMAL, expNonPositive } from "./exp";
import { fma, hsum, loadGroup, storeGroup } from "./simd";
import { SOFTMAX } from "./softmax";

/** The next terms of the sum; the missing lanes of a group add 0. */
@inline
function addTerms(mode: i32, sum: v128, dOut: v128, y: v128): v128 {
  return mode == SOFTMAX ? fma(dOut, y, sum) : f32x4.add(sum, dOut);
}

@inline
function gradient(mode: i32, sum: v128, dOut: v128, y: v128): v128 {
  return mode == SOFTMAX
    ? f32x4.mul(y, f32x4.sub(dOut, sum))
    : f32x4.sub(dOut, f32x4.mul(expNonPositive(y, SMALLEST_NORMAL), sum));
}

function rowSum(mode: i32, n: i32, dOut: usize, y: usize): f32 {
  let s0 = f32x4.splat(0), s1 = s0;
  let j = 0;
  for (; j + 8 <= n; j += 8, dOut += 32, y += 32) {
    s0 = addTerms(mode, s0, v128.load(dOut), v128.load(y));
    s1 = addTerms(mode, s1, v128.load(dOut, 16), v128.load(y, 16));
  }
  for (; j < n; j += 4, dOut += 16, y += 16) {
    const count = min(4, n - j);
    s0 = addTerms(mode, s0, loadGroup(dOut, count), loadGroup(y, count));
  }
  return hsum(f32x4.add(s0, s1));
}

export function softmaxBackwardRows(
  mode: i32, n: i32, dOut: usize, y: usize, dx: usize, begin: i32, end: i32,
): void {
  assert(0 <= begin && begin <= end, "softmaxBackwardRows: work range");
  const first = <usize>begin * (<usize>n << 2);
  dOut += first;
  y += first;
  dx += first;
  for (let i = begin; i < end; ++i) {
    const sum = f32x4.splat(rowSum(mode, n, dOut, y));
    for (let j = 0; j < n; j += 4) {
      const at = <usize>j << 2;
      const count = min(4, n - j);
      storeGroup(dx + at, gradient(mode, sum, loadGroup(dOut + at, count), loadGroup(y + at, count)), count);
    }
    dOut += <usize>n << 2;
    y += <usize>n << 2;
    dx += <usize>n << 2;
  }
}

export function softmaxBackwardColumns(
  mode: i32, n: i32, inner: i32, dOut: usize, y: usize, dx: usize, begin: i32, end: i32,
): void {
  assert(0 <= begin && begin <= end, "softmaxBackwardColumns: work range");
  const groups = (inner + 3) >> 2;
  const stride = <usize>inner << 2;
  const size = <usize>n * stride;
  for (let w = begin; w < end; ++w) {
    const first = (w % groups) << 2;
    const count = min(4, inner - first);
    const start = <usize>(w / groups) * size + (<usize>first << 2);
    let sum = f32x4.splat(0);
    for (let at = start; at < start + size; at += stride) {
      sum = addTerms(mode, sum, loadGroup(dOut + at, count), loadGroup(y + at, count));
    }
    for (let at = start; at < start + size; at += stride) {
      storeGroup(dx + at, gradient(mode, sum, loadGroup(dOut + at, count), loadGroup(y + at, count)), count);
    }
  }
}

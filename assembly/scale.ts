// y = alpha * x, elementwise.
//
// x, y: contiguous floats, of which [begin, end) are done; y may be x. No scratch. An empty range does nothing.
// Accuracy: one rounding, IEEE multiplication (test/scale.test.ts). Edges: 0 * Infinity is NaN, NaN stays NaN, signs of
// zeros and subnormal numbers are kept. Reads and writes exactly, a tail by lanes.
import { loadPartial, storePartial } from "./simd";

/** y[i] = alpha * x[i] for i in [begin, end). */
export function scale(alpha: f32, x: usize, y: usize, begin: i32, end: i32): void {
  assert(0 <= begin && begin <= end, "scale: work range");
  const factor = f32x4.splat(alpha);
  let i = begin;
  for (; i + 4 <= end; i += 4) {
    const at = <usize>i << 2;
    v128.store(y + at, f32x4.mul(factor, v128.load(x + at)));
  }
  if (i < end) {
    const at = <usize>i << 2;
    storePartial(y + at, f32x4.mul(factor, loadPartial(x + at, end - i, factor)), end - i);
  }
}

// z = x + y, elementwise.
//
// x, y, z: contiguous floats, of which [begin, end) are done; z may be x or y. No scratch. An empty range does nothing.
// Accuracy: one rounding, IEEE addition (test/add.test.ts). Edges: Infinity - Infinity is NaN, NaN stays NaN, signs of
// zeros and subnormal numbers are kept. Reads and writes exactly, a tail by lanes.
import { loadGroup, storeGroup } from "./simd";

/** z[i] = x[i] + y[i] for i in [begin, end). */
export function add(x: usize, y: usize, z: usize, begin: i32, end: i32): void {
  assert(0 <= begin && begin <= end, "add: work range");
  for (let i = begin; i < end; i += 4) {
    const at = <usize>i << 2;
    const count = min(4, end - i);
    storeGroup(z + at, f32x4.add(loadGroup(x + at, count), loadGroup(y + at, count)), count);
  }
}

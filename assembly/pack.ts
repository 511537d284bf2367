// Packing of matrix rows into panels of NR = 8 columns, so that the micro-kernel reads them contiguously.
//
// packed[p][0..8) = B(p, j..j+8), k rows; columns past `count` are 0.
//   packColumns  B(p, j) at b + p * rowB + 4 j: rows in place
//   packRows     B(p, j) at b + j * rowB + 4 p: transposed, times alpha (also scale * Q^T of a panel of queries)
// Writes k * 32 bytes at `packed`, 16-byte aligned. Reads b exactly.
// Accuracy: one rounding by alpha, none where it is 1.
import { loadPartial, storeTransposed4 } from "./simd";

/** Panel of `count` <= 8 contiguous columns of a row-major matrix. */
export function packColumns(k: i32, count: i32, b: usize, rowB: usize, packed: usize): void {
  const zero = f32x4.splat(0);
  for (let p = 0; p < k; ++p) {
    if (count == 8) {
      v128.store(packed, v128.load(b));
      v128.store(packed, v128.load(b, 16), 16);
    } else if (count >= 4) {
      v128.store(packed, v128.load(b));
      v128.store(packed, count > 4 ? loadPartial(b + 16, count - 4, zero) : zero, 16);
    } else {
      v128.store(packed, loadPartial(b, count, zero));
      v128.store(packed, zero, 16);
    }
    b += rowB;
    packed += 32;
  }
}

/** Panel whose columns are `count` <= 8 rows of a matrix, each k long and contiguous, times alpha. */
export function packRows(k: i32, count: i32, alpha: f32, b: usize, rowB: usize, packed: usize): void {
  packFourRows(k, min(count, 4), alpha, b, rowB, packed);
  packFourRows(k, max(count - 4, 0), alpha, b + 4 * rowB, rowB, packed + 16);
}

/** Half a panel: 4 lanes of each row of 8. */
function packFourRows(k: i32, count: i32, alpha: f32, b: usize, rowB: usize, packed: usize): void {
  const zero = f32x4.splat(0);
  const factor = f32x4.splat(alpha);
  const b1 = b + rowB, b2 = b1 + rowB, b3 = b2 + rowB;
  let p = 0;
  if (count == 4) { // whole squares, nearly all: no test of the rows for each
    for (; p + 4 <= k; p += 4) {
      const at = <usize>p << 2;
      storeTransposed4(
        true, packed, 32, f32x4.mul(factor, v128.load(b + at)), f32x4.mul(factor, v128.load(b1 + at)),
        f32x4.mul(factor, v128.load(b2 + at)), f32x4.mul(factor, v128.load(b3 + at)),
      );
      packed += 128;
    }
  }
  for (; p < k; p += 4) {
    const at = <usize>p << 2;
    const left = k - p;
    let r0 = zero, r1 = zero, r2 = zero; // the fourth row is one of a whole square or none
    if (left >= 4) {
      if (count > 0) r0 = f32x4.mul(factor, v128.load(b + at));
      if (count > 1) r1 = f32x4.mul(factor, v128.load(b1 + at));
      if (count > 2) r2 = f32x4.mul(factor, v128.load(b2 + at));
      storeTransposed4(true, packed, 32, r0, r1, r2, zero);
      packed += 128;
    } else {
      for (let i = 0; i < left; ++i) {
        const from = at + (<usize>i << 2);
        v128.store(packed, zero);
        if (count > 0) f32.store(packed, alpha * f32.load(b + from));
        if (count > 1) f32.store(packed, alpha * f32.load(b1 + from), 4);
        if (count > 2) f32.store(packed, alpha * f32.load(b2 + from), 8);
        if (count > 3) f32.store(packed, alpha * f32.load(b3 + from), 12);
        packed += 32;
      }
    }
  }
}

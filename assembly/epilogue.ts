// What becomes of a register tile (microkernel.ts): its sums acc[i][0..8), MR rows or one, go to C.
//
//   GEMM    c = alpha * acc + beta * c on the first `nr` columns; c is read only where `reads` (beta != 0);
//   SCORES  c = acc, and the 8 running maxima at `maxima` take in every row (NaN is passed over: it shows in the sums);
//   RESCALE c = c * (alpha, beta) + acc, the factors of the first and the last four columns; without `reads` c = acc.
// C: row i at c + i * rowC bytes, nr from 1 to 8. Writes 8 floats of a row (GEMM nr), SCORES 8 of `maxima` as well;
//   reads C only where `reads`, and then whole vectors: up to 28 bytes past a partial row. No scratch.
// Accuracy: alpha * acc is rounded, what is added to it is one multiply-add (fma in simd.ts); test/matmul.test.ts.
import { MR } from "./config";
import { fma, storePartial } from "./simd";

@inline export const GEMM: i32 = 0;
@inline export const SCORES: i32 = 1;
@inline export const RESCALE: i32 = 2;

/** GEMM of one row. Of a partial one it reads more than it stores. */
export function storeGemm(c: usize, c0: v128, c1: v128, nr: i32, alpha: v128, beta: v128, reads: bool): void {
  c0 = f32x4.mul(alpha, c0);
  c1 = f32x4.mul(alpha, c1);
  if (reads) {
    c0 = fma(beta, v128.load(c), c0);
    c1 = fma(beta, v128.load(c, 16), c1);
  }
  if (nr < 4) {
    storePartial(c, c0, nr);
    return;
  }
  v128.store(c, c0);
  if (nr == 8) v128.store(c, c1, 16);
  else if (nr > 4) storePartial(c + 16, c1, nr - 4);
}

/** What storeTile does, for one row: a function, since copies of it in the edges would be a tenth of the binary. */
export function storeEdge(
  epilogue: i32, c: usize, c0: v128, c1: v128, nr: i32, alpha: v128, beta: v128, reads: bool, maxima: usize,
): void {
  if (epilogue == GEMM) {
    storeGemm(c, c0, c1, nr, alpha, beta, reads);
    return;
  }
  if (epilogue == SCORES) {
    v128.store(maxima, f32x4.pmax(v128.load(maxima), c0));
    v128.store(maxima, f32x4.pmax(v128.load(maxima, 16), c1), 16);
  } else if (reads) {
    c0 = fma(v128.load(c), alpha, c0);
    c1 = fma(v128.load(c, 16), beta, c1);
  }
  v128.store(c, c0);
  v128.store(c, c1, 16);
}

/** MR rows: which epilogue is asked once a tile and not a row, and the maxima meet memory once. */
@inline
export function storeTile(
  epilogue: i32, c: usize, rowC: usize, nr: i32, alpha: v128, beta: v128, reads: bool, maxima: usize,
  c00: v128, c01: v128, c10: v128, c11: v128, c20: v128, c21: v128,
  c30: v128, c31: v128, c40: v128, c41: v128, c50: v128, c51: v128,
): void {
  const r1 = c + rowC, r2 = r1 + rowC, r3 = r2 + rowC, r4 = r3 + rowC, r5 = r4 + rowC;
  if (epilogue == GEMM) {
    storeGemm(c, c00, c01, nr, alpha, beta, reads);
    storeGemm(r1, c10, c11, nr, alpha, beta, reads);
    storeGemm(r2, c20, c21, nr, alpha, beta, reads);
    storeGemm(r3, c30, c31, nr, alpha, beta, reads);
    storeGemm(r4, c40, c41, nr, alpha, beta, reads);
    if (MR > 5) storeGemm(r5, c50, c51, nr, alpha, beta, reads);
    return;
  }
  if (epilogue == SCORES) {
    let m0 = f32x4.pmax(v128.load(maxima), c00), m1 = f32x4.pmax(v128.load(maxima, 16), c01);
    m0 = f32x4.pmax(m0, c10); m1 = f32x4.pmax(m1, c11);
    m0 = f32x4.pmax(m0, c20); m1 = f32x4.pmax(m1, c21);
    m0 = f32x4.pmax(m0, c30); m1 = f32x4.pmax(m1, c31);
    m0 = f32x4.pmax(m0, c40); m1 = f32x4.pmax(m1, c41);
    if (MR > 5) { m0 = f32x4.pmax(m0, c50); m1 = f32x4.pmax(m1, c51); }
    v128.store(maxima, m0);
    v128.store(maxima, m1, 16);
  } else if (reads) {
    c00 = fma(v128.load(c), alpha, c00); c01 = fma(v128.load(c, 16), beta, c01);
    c10 = fma(v128.load(r1), alpha, c10); c11 = fma(v128.load(r1, 16), beta, c11);
    c20 = fma(v128.load(r2), alpha, c20); c21 = fma(v128.load(r2, 16), beta, c21);
    c30 = fma(v128.load(r3), alpha, c30); c31 = fma(v128.load(r3, 16), beta, c31);
    c40 = fma(v128.load(r4), alpha, c40); c41 = fma(v128.load(r4, 16), beta, c41);
    if (MR > 5) { c50 = fma(v128.load(r5), alpha, c50); c51 = fma(v128.load(r5, 16), beta, c51); }
  }
  v128.store(c, c00); v128.store(c, c01, 16);
  v128.store(r1, c10); v128.store(r1, c11, 16);
  v128.store(r2, c20); v128.store(r2, c21, 16);
  v128.store(r3, c30); v128.store(r3, c31, 16);
  v128.store(r4, c40); v128.store(r4, c41, 16);
  if (MR > 5) { v128.store(r5, c50); v128.store(r5, c51, 16); }
}

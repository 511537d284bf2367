// The register tile under every product: acc[i][0..8) = sum over p in [0, k) of A(i, p) * B(p, 0..8), i < mr <= MR.
//
// A: mr rows, one element broadcast at a time, so it is read where it stands and never packed:
//   ROWS: row i at a + i * rowA bytes, p contiguous (C = A B, or scores = K Q^T);
//   COLUMNS: p at a + p * stepA bytes, rows contiguous (C = A^T B, or out^T = V^T P^T).
// B: row p is 8 floats at b + p * stepB bytes (a packed panel, or rows of a matrix in place).
// C: row i at c + i * rowC bytes. What happens to it is the epilogue's:
//   STORE c = acc; RESCALE c = c * scale[0..8) + acc; GEMM c = alpha * acc + beta * c on the first `nr` columns,
//   with beta = 0 never reading c.
// GUARDED (RESCALE only): B holds weights, and a weight of -0 marks a masked key: such a lane takes 0 for the value,
//   so NaN or Infinity behind a mask cannot leak through 0 * NaN.
// Reads: A exactly, B whole rows of 8 (up to READ_SLACK past a tensor's end). Order: p ascending, one accumulator each.
// Why this tile: see MR and NR in config.ts. p is unrolled by 4 in ROWS since five row pointers advance per turn.
import { MR } from "./config";
import { fma, storePartial } from "./simd";

@inline export const ROWS: i32 = 0;
@inline export const COLUMNS: i32 = 1;

@inline export const STORE: i32 = 0;
@inline export const RESCALE: i32 = 1;
@inline export const GEMM: i32 = 2;

/** Weight times value, where a weight with its sign bit set stands for a masked key. */
@inline
function guardedFma(guarded: bool, value: v128, weight: v128, acc: v128): v128 {
  return fma(guarded ? v128.andnot(value, i32x4.shr_s(weight, 31)) : value, weight, acc);
}

@inline
function storeRow(
  epilogue: i32, c: usize, c0: v128, c1: v128, nr: i32, alpha: v128, beta: v128, useBeta: bool,
): void {
  if (epilogue == STORE) {
    v128.store(c, c0);
    v128.store(c, c1, 16);
  } else if (epilogue == RESCALE) {
    v128.store(c, fma(v128.load(c), alpha, c0));
    v128.store(c, fma(v128.load(c, 16), beta, c1), 16);
  } else {
    storeGemm(c, c0, c1, nr, alpha, beta, useBeta);
  }
}

function storeGemm(c: usize, c0: v128, c1: v128, nr: i32, alpha: v128, beta: v128, useBeta: bool): void {
  let r0 = f32x4.mul(alpha, c0);
  let r1 = f32x4.mul(alpha, c1);
  if (nr == 8) {
    if (useBeta) {
      r0 = fma(beta, v128.load(c), r0);
      r1 = fma(beta, v128.load(c, 16), r1);
    }
    v128.store(c, r0);
    v128.store(c, r1, 16);
    return;
  }
  if (useBeta) { // reads up to 28 bytes past the row, discarded by the partial stores
    r0 = fma(beta, v128.load(c), r0);
    r1 = fma(beta, v128.load(c, 16), r1);
  }
  if (nr < 4) {
    storePartial(c, r0, nr);
  } else {
    v128.store(c, r0);
    if (nr > 4) storePartial(c + 16, r1, nr - 4);
  }
}

/** One tile of `mr` rows; `mr`, `order`, `epilogue` and `guarded` are literals and fold away. */
@inline
function tile(
  mr: i32, order: i32, epilogue: i32, guarded: bool,
  k: i32, a: usize, rowA: usize, stepA: usize, b: usize, stepB: usize, c: usize, rowC: usize,
  nr: i32, alpha: v128, beta: v128, useBeta: bool,
): void {
  let c00 = f32x4.splat(0), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00, c30 = c00, c31 = c00, c40 = c00, c41 = c00;
  let b0: v128, b1: v128, x: v128;
  let p = k;
  if (order == ROWS) {
    let a0 = a, a1 = a + rowA, a2 = a1 + rowA, a3 = a2 + rowA, a4 = a3 + rowA;
    for (; p >= 4; p -= 4) {
      b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
      x = v128.load32_splat(a0); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
      if (mr > 1) { x = v128.load32_splat(a1); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11); }
      if (mr > 2) { x = v128.load32_splat(a2); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21); }
      if (mr > 3) { x = v128.load32_splat(a3); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31); }
      if (mr > 4) { x = v128.load32_splat(a4); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41); }
      b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
      x = v128.load32_splat(a0, 4); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
      if (mr > 1) { x = v128.load32_splat(a1, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11); }
      if (mr > 2) { x = v128.load32_splat(a2, 4); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21); }
      if (mr > 3) { x = v128.load32_splat(a3, 4); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31); }
      if (mr > 4) { x = v128.load32_splat(a4, 4); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41); }
      b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
      x = v128.load32_splat(a0, 8); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
      if (mr > 1) { x = v128.load32_splat(a1, 8); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11); }
      if (mr > 2) { x = v128.load32_splat(a2, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21); }
      if (mr > 3) { x = v128.load32_splat(a3, 8); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31); }
      if (mr > 4) { x = v128.load32_splat(a4, 8); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41); }
      b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
      x = v128.load32_splat(a0, 12); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01); a0 += 16;
      if (mr > 1) { x = v128.load32_splat(a1, 12); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11); a1 += 16; }
      if (mr > 2) { x = v128.load32_splat(a2, 12); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21); a2 += 16; }
      if (mr > 3) { x = v128.load32_splat(a3, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31); a3 += 16; }
      if (mr > 4) { x = v128.load32_splat(a4, 12); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41); a4 += 16; }
    }
    for (; p > 0; --p) {
      b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
      x = v128.load32_splat(a0); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01); a0 += 4;
      if (mr > 1) { x = v128.load32_splat(a1); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11); a1 += 4; }
      if (mr > 2) { x = v128.load32_splat(a2); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21); a2 += 4; }
      if (mr > 3) { x = v128.load32_splat(a3); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31); a3 += 4; }
      if (mr > 4) { x = v128.load32_splat(a4); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41); a4 += 4; }
    }
  } else {
    for (; p > 0; --p) {
      b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
      x = v128.load32_splat(a); c00 = guardedFma(guarded, x, b0, c00); c01 = guardedFma(guarded, x, b1, c01);
      if (mr > 1) { x = v128.load32_splat(a, 4); c10 = guardedFma(guarded, x, b0, c10); c11 = guardedFma(guarded, x, b1, c11); }
      if (mr > 2) { x = v128.load32_splat(a, 8); c20 = guardedFma(guarded, x, b0, c20); c21 = guardedFma(guarded, x, b1, c21); }
      if (mr > 3) { x = v128.load32_splat(a, 12); c30 = guardedFma(guarded, x, b0, c30); c31 = guardedFma(guarded, x, b1, c31); }
      if (mr > 4) { x = v128.load32_splat(a, 16); c40 = guardedFma(guarded, x, b0, c40); c41 = guardedFma(guarded, x, b1, c41); }
      a += stepA;
    }
  }
  storeRow(epilogue, c, c00, c01, nr, alpha, beta, useBeta);
  if (mr > 1) storeRow(epilogue, c += rowC, c10, c11, nr, alpha, beta, useBeta);
  if (mr > 2) storeRow(epilogue, c += rowC, c20, c21, nr, alpha, beta, useBeta);
  if (mr > 3) storeRow(epilogue, c += rowC, c30, c31, nr, alpha, beta, useBeta);
  if (mr > 4) storeRow(epilogue, c += rowC, c40, c41, nr, alpha, beta, useBeta);
}

/** `rows` rows of C against one panel of B: full tiles of MR, then one smaller. */
@inline
export function panel(
  order: i32, epilogue: i32, guarded: bool,
  rows: i32, k: i32, a: usize, rowA: usize, stepA: usize, b: usize, stepB: usize, c: usize, rowC: usize,
  nr: i32, alpha: v128, beta: v128, useBeta: bool,
): void {
  if (guarded) { // rare: a row at a time spares the code of four more tiles
    for (; rows > 0; --rows, a += rowA, c += rowC) {
      tile(1, order, epilogue, guarded, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, useBeta);
    }
    return;
  }
  for (; rows >= MR; rows -= MR) {
    tile(MR, order, epilogue, guarded, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, useBeta);
    a += <usize>MR * rowA;
    c += <usize>MR * rowC;
  }
  if (rows == 1) tile(1, order, epilogue, guarded, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, useBeta);
  else if (rows == 2) tile(2, order, epilogue, guarded, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, useBeta);
  else if (rows == 3) tile(3, order, epilogue, guarded, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, useBeta);
  else if (rows == 4) tile(4, order, epilogue, guarded, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, useBeta);
}

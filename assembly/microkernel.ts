// The register tile under every product: acc[i][0..8) = sum over p in [0, k) of A(i, p) * B(p, 0..8), i < mr <= MR.
//
// A: mr rows, one element broadcast at a time, so it is read where it stands and never packed:
//   ROWS: row i at a + i * rowA bytes, p contiguous (C = A B, or scores = K Q^T);
//   COLUMNS: p at a + p * stepA bytes, rows contiguous (C = A^T B, or out^T = V^T P^T).
// B: row p is 8 floats at b + p * stepB bytes (a packed panel, or rows of a matrix in place).
// C: row i at c + i * rowC bytes. What happens to it is the epilogue's (epilogue.ts).
// GUARDED (RESCALE only): B holds weights, and a weight of -0 marks a masked key: such a lane takes 0 for the value,
//   so NaN or Infinity behind a mask cannot leak through 0 * NaN.
// Reads: A exactly, B whole rows of 8, up to READ_SLACK past a tensor's end. No scratch.
// Order: p ascending, one accumulator each. Accuracy: k multiply-adds (fma in simd.ts), then the epilogue.
// Why this tile: see MR and NR in config.ts. p is unrolled by 8 in a full tile, for the instructions of the loop alone:
//   3 to 7 % less time than by 4 where a core is shared and gets through half as many, up to 1 % elsewhere. The order
//   written here is the order that engines execute: Binaryen's expression nesting is left out of the build
//   (asconfig.json), since it gathers the steps of each accumulator into one chain and spills half of them (31 against
//   40 GFLOP/s). npm run bench -- gemm
import { MR } from "./config";
import { RESCALE, storeEdge, storeTile } from "./epilogue";
import { fma } from "./simd";

@inline export const ROWS: i32 = 0;
@inline export const COLUMNS: i32 = 1;

/** Weight times value, where a weight of -0 stands for a masked key. */
@inline
function guardedFma(guarded: bool, value: v128, weight: v128, acc: v128): v128 {
  return fma(guarded ? v128.andnot(value, i32x4.eq(weight, f32x4.splat(-0.0))) : value, weight, acc);
}

/**
 * Reads the first element of each of MR rows, so that their lines are in the cache: the rows of the full tile after
 * this one, or its own where there is none. Prefetchers follow a row and not the step to the next: attention takes 2 to
 * 5 % less time (1 % more of it if called before the tile and not inside). npm run bench -- attention
 */
@inline
function touchRows(a: usize, rowA: usize): void {
  load<i32>(a);
  load<i32>(a += rowA);
  load<i32>(a += rowA);
  load<i32>(a += rowA);
  load<i32>(a += rowA);
  if (MR > 5) load<i32>(a + rowA);
}

/** One tile of `mr` rows; `mr`, `order`, `guarded` are literals and fold away. `next`: what touchRows reads in ROWS. */
@inline
function tile(
  mr: i32, order: i32, epilogue: i32, guarded: bool,
  k: i32, a: usize, rowA: usize, stepA: usize, b: usize, stepB: usize, c: usize, rowC: usize,
  nr: i32, alpha: v128, beta: v128, reads: bool, maxima: usize, next: usize,
): void {
  let c00 = f32x4.splat(0), c01 = c00, c10 = c00, c11 = c00, c20 = c00, c21 = c00;
  let c30 = c00, c31 = c00, c40 = c00, c41 = c00, c50 = c00, c51 = c00;
  let b0: v128, b1: v128, x: v128;
  let p = k;
  if (order == ROWS) {
    let a0 = a, a1 = a + rowA, a2 = a1 + rowA, a3 = a2 + rowA, a4 = a3 + rowA, a5 = a4 + rowA;
    if (mr == MR) { // smaller tiles are edges: their code stays small instead
      if (k > 0) touchRows(next, rowA);
      for (; p >= 8; p -= 8) {
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a0); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a1); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a2); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a3); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a4); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a5); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a0, 4); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a1, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a2, 4); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a3, 4); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a4, 4); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a5, 4); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a0, 8); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a1, 8); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a2, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a3, 8); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a4, 8); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a5, 8); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a0, 12); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a1, 12); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a2, 12); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a3, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a4, 12); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a5, 12); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a0, 16); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a1, 16); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a2, 16); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a3, 16); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a4, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a5, 16); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a0, 20); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a1, 20); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a2, 20); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a3, 20); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a4, 20); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a5, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a0, 24); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a1, 24); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a2, 24); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a3, 24); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a4, 24); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a5, 24); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a0, 28); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01); a0 += 32;
        x = v128.load32_splat(a1, 28); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11); a1 += 32;
        x = v128.load32_splat(a2, 28); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21); a2 += 32;
        x = v128.load32_splat(a3, 28); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31); a3 += 32;
        x = v128.load32_splat(a4, 28); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41); a4 += 32;
        if (mr > 5) { x = v128.load32_splat(a5, 28); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); a5 += 32; }
      }
    }
    for (; p > 0; --p) {
      b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
      x = v128.load32_splat(a0); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01); a0 += 4;
      if (mr > 1) { x = v128.load32_splat(a1); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11); a1 += 4; }
      if (mr > 2) { x = v128.load32_splat(a2); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21); a2 += 4; }
      if (mr > 3) { x = v128.load32_splat(a3); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31); a3 += 4; }
      if (mr > 4) { x = v128.load32_splat(a4); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41); a4 += 4; }
      if (mr > 5) { x = v128.load32_splat(a5); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); a5 += 4; }
    }
  } else {
    if (mr == MR) {
      for (; p >= 8; p -= 8) {
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        a += stepA;
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        a += stepA;
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        a += stepA;
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        a += stepA;
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        a += stepA;
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        a += stepA;
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        a += stepA;
        b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
        x = v128.load32_splat(a); c00 = fma(x, b0, c00); c01 = fma(x, b1, c01);
        x = v128.load32_splat(a, 4); c10 = fma(x, b0, c10); c11 = fma(x, b1, c11);
        x = v128.load32_splat(a, 8); c20 = fma(x, b0, c20); c21 = fma(x, b1, c21);
        x = v128.load32_splat(a, 12); c30 = fma(x, b0, c30); c31 = fma(x, b1, c31);
        x = v128.load32_splat(a, 16); c40 = fma(x, b0, c40); c41 = fma(x, b1, c41);
        if (mr > 5) { x = v128.load32_splat(a, 20); c50 = fma(x, b0, c50); c51 = fma(x, b1, c51); }
        a += stepA;
      }
    }
    for (; p > 0; --p) {
      b0 = v128.load(b); b1 = v128.load(b, 16); b += stepB;
      x = v128.load32_splat(a); c00 = guardedFma(guarded, x, b0, c00); c01 = guardedFma(guarded, x, b1, c01);
      if (mr > 1) { x = v128.load32_splat(a, 4); c10 = guardedFma(guarded, x, b0, c10); c11 = guardedFma(guarded, x, b1, c11); }
      if (mr > 2) { x = v128.load32_splat(a, 8); c20 = guardedFma(guarded, x, b0, c20); c21 = guardedFma(guarded, x, b1, c21); }
      if (mr > 3) { x = v128.load32_splat(a, 12); c30 = guardedFma(guarded, x, b0, c30); c31 = guardedFma(guarded, x, b1, c31); }
      if (mr > 4) { x = v128.load32_splat(a, 16); c40 = guardedFma(guarded, x, b0, c40); c41 = guardedFma(guarded, x, b1, c41); }
      if (mr > 5) { x = v128.load32_splat(a, 20); c50 = guardedFma(guarded, x, b0, c50); c51 = guardedFma(guarded, x, b1, c51); }
      a += stepA;
    }
  }
  if (mr == MR) {
    storeTile(
      epilogue, c, rowC, nr, alpha, beta, reads, maxima,
      c00, c01, c10, c11, c20, c21, c30, c31, c40, c41, c50, c51,
    );
    return;
  }
  storeEdge(epilogue, c, c00, c01, nr, alpha, beta, reads, maxima);
  if (mr > 1) storeEdge(epilogue, c += rowC, c10, c11, nr, alpha, beta, reads, maxima);
  if (mr > 2) storeEdge(epilogue, c += rowC, c20, c21, nr, alpha, beta, reads, maxima);
  if (mr > 3) storeEdge(epilogue, c += rowC, c30, c31, nr, alpha, beta, reads, maxima);
}

/** `rows` rows of C against one panel of B: full tiles of MR, then of 4, 2 and 1; 5 and 3 as well gain nothing. */
export function panel(
  order: i32, epilogue: i32, rows: i32, k: i32, a: usize, rowA: usize, stepA: usize, b: usize, stepB: usize,
  c: usize, rowC: usize, nr: i32, alpha: v128, beta: v128, reads: bool, maxima: usize,
): void {
  if (order == ROWS) tiles(ROWS, epilogue, rows, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, reads, maxima);
  else tiles(COLUMNS, epilogue, rows, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, reads, maxima);
}

@inline
function tiles(
  order: i32, epilogue: i32, rows: i32, k: i32, a: usize, rowA: usize, stepA: usize, b: usize, stepB: usize,
  c: usize, rowC: usize, nr: i32, alpha: v128, beta: v128, reads: bool, maxima: usize,
): void {
  for (; rows >= MR; rows -= MR) {
    const next = rows >= 2 * MR ? a + <usize>MR * rowA : a;
    tile(
      MR, order, epilogue, false, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, reads, maxima, next,
    );
    a += <usize>MR * rowA;
    c += <usize>MR * rowC;
  }
  if (rows >= 4) {
    tile(4, order, epilogue, false, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, reads, maxima, a);
    a += rowA << 2;
    c += rowC << 2;
    rows -= 4;
  }
  if (rows >= 2) {
    tile(2, order, epilogue, false, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, reads, maxima, a);
    a += rowA << 1;
    c += rowC << 1;
    rows -= 2;
  }
  if (rows > 0) {
    tile(1, order, epilogue, false, k, a, rowA, stepA, b, stepB, c, rowC, nr, alpha, beta, reads, maxima, a);
  }
}

/** COLUMNS and RESCALE with GUARDED, a row at a time: it is rare. */
export function guardedPanel(
  rows: i32, k: i32, a: usize, stepA: usize, b: usize, stepB: usize, c: usize, rowC: usize,
  alpha: v128, beta: v128, reads: bool,
): void {
  for (; rows > 0; --rows, a += 4, c += rowC) {
    tile(1, COLUMNS, RESCALE, true, k, a, 4, stepA, b, stepB, c, rowC, 8, alpha, beta, reads, 0, a);
  }
}

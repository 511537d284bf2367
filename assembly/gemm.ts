// C = alpha * op(A) op(B) + beta * C over float32 matrices in place (BLAS sgemm, row-major).
//
// op(A): m x k, element (i, p) at a + 4 (i * rsA + p * csA); one of rsA, csA is 1 (a transpose is only a stride).
// op(B): k x n, element (p, j) at b + 4 (p * rsB + j * csB); one of rsB, csB is 1.
// C: m x n, row i at c + 4 i * ldc. Rows [begin, end) of C are computed.
// Reads A exactly, B and (where beta != 0) C up to READ_SLACK past their ends; writes C exactly.
// Scratch: gemmScratchBytes(m, n, k, csA, csB), 16-byte aligned: packed panels of B, or the sums of a few rows.
// Edges: beta = 0 never reads C, so NaN there is legal; alpha = 0 or k = 0 gives beta * C; NaN in A or B is not hidden
//   by a zero in the other. C may not overlap A or B.
// Accuracy: per element a sum of k terms in blocks of KC, in order: at most twice the error of a plain float32 loop
//   (test/matmul.test.ts).
// Loops (BLIS): NC columns, KC depth, MC rows around panels of NR columns and tiles of MR rows.
//   A is not packed: it is read by broadcasts, which need no alignment and no contiguity across rows. Few rows of A,
//   and small B, go without packing B too; the bits of an element are the same on every path.
import { DIRECT_SIZE, FEW_ROWS, FEW_ROWS_SUMS, KC, MC, NC, NR } from "./config";
import { GEMM, storeGemm } from "./epilogue";
import { dotRows, streamRows } from "./few-rows";
import { COLUMNS, ROWS, panel } from "./microkernel";
import { packColumns, packRows } from "./pack";

/** True where B is used as it stands: rows contiguous, and small enough to stay in cache whatever the order. */
@inline
function isDirect(n: i32, k: i32, csB: i32): bool {
  return csB == 1 && <i64>n * k <= DIRECT_SIZE;
}

/** True where A has so few rows that reading B once is the cost, and packing it would double that. */
@inline
function isFewRows(m: i32, csA: i32, csB: i32): bool {
  return m <= FEW_ROWS && (csB == 1 || csA == 1);
}

/** Columns of C whose m rows of sums stay in cache: see FEW_ROWS_SUMS. */
@inline
function fewRowsColumns(m: i32): i32 {
  return max((FEW_ROWS_SUMS / max(m, 1)) & ~15, 16);
}

/** Bytes of scratch that `gemm` needs, whatever part of its rows it computes. */
export function gemmScratchBytes(m: i32, n: i32, k: i32, csA: i32, csB: i32): usize {
  if (isDirect(n, k, csB)) return 0;
  if (isFewRows(m, csA, csB)) return (<usize>m * min((n + 7) & ~7, fewRowsColumns(m))) << 2;
  const columns = (min(n, NC) + NR - 1) / NR * NR;
  return (<usize>columns * min(k, KC)) << 2;
}

export function gemm(
  m: i32, n: i32, k: i32, alpha: f32, a: usize, rsA: i32, csA: i32, b: usize, rsB: i32, csB: i32,
  beta: f32, c: usize, ldc: i32, scratch: usize, begin: i32, end: i32,
): void {
  assert(0 <= begin && begin <= end && end <= m, "gemm: rows");
  assert(rsA == 1 || csA == 1, "gemm: rows or columns of A must be contiguous");
  assert(rsB == 1 || csB == 1, "gemm: rows or columns of B must be contiguous");
  assert((scratch & 15) == 0, "gemm: scratch must be 16-byte aligned");
  if (alpha == 0 || k == 0) {
    for (let i = begin; i < end; ++i) scaleRow(n, beta, c + ((<usize>i * ldc) << 2));
    return;
  }
  const direct = isDirect(n, k, csB);
  const few = !direct && isFewRows(m, csA, csB);
  const rowB = <usize>(csB == 1 ? rsB : csB) << 2;
  const columns = direct ? n : few ? fewRowsColumns(m) : NC;
  const rows = few ? m : MC;
  for (let jc = 0; jc < n; jc += columns) {
    const nc = min(columns, n - jc);
    for (let pc = 0; pc < k; pc += KC) {
      const kc = min(KC, k - pc);
      const blockB = b + ((<usize>pc * rsB + <usize>jc * csB) << 2);
      if (!direct && !few) packBlock(kc, nc, csB == 1, blockB, rowB, scratch);
      for (let ic = begin; ic < end; ic += rows) {
        const mc = min(rows, end - ic);
        const blockA = a + ((<usize>ic * rsA + <usize>pc * csA) << 2);
        const blockC = c + ((<usize>ic * ldc + jc) << 2);
        const blockBeta: f32 = pc == 0 ? beta : 1;
        if (few) {
          fewRows(mc, nc, kc, alpha, blockA, rsA, csA, blockB, rowB, csB == 1, blockBeta, blockC, ldc, scratch);
        } else if (direct) {
          macrokernel(mc, nc, kc, alpha, blockA, rsA, csA, blockB, rowB, 32, blockBeta, blockC, ldc);
        } else {
          macrokernel(mc, nc, kc, alpha, blockA, rsA, csA, scratch, 32, <usize>kc << 5, blockBeta, blockC, ldc);
        }
      }
    }
  }
}

/** The block of C by a pass over B in place: sums in scratch, then alpha and beta. */
function fewRows(
  m: i32, n: i32, k: i32, alpha: f32, a: usize, rsA: i32, csA: i32, b: usize, rowB: usize, rowsContiguous: bool,
  beta: f32, c: usize, ldc: i32, sums: usize,
): void {
  const rowA = <usize>rsA << 2, rowSums = <usize>((n + 7) & ~7) << 2;
  if (rowsContiguous) streamRows(m, n, k, a, rowA, <usize>csA << 2, b, rowB, sums, rowSums);
  else dotRows(m, n, k, a, rowA, b, rowB, sums, rowSums);
  const alpha4 = f32x4.splat(alpha), beta4 = f32x4.splat(beta);
  for (let i = 0; i < m; ++i) {
    const row = sums + <usize>i * rowSums, to = c + ((<usize>i * ldc) << 2);
    for (let j = 0; j < n; j += NR) {
      const at = <usize>j << 2;
      storeGemm(to + at, v128.load(row + at), v128.load(row + at, 16), min(NR, n - j), alpha4, beta4, beta != 0);
    }
  }
}

/** One row of C where nothing is added to it: C = beta * C. */
function scaleRow(n: i32, beta: f32, row: usize): void {
  for (let j = 0; j < n; ++j) {
    const at = row + (<usize>j << 2);
    f32.store(at, beta == 0 ? 0 : beta * f32.load(at));
  }
}

/** Packs a kc x nc block of op(B) into panels of NR columns. */
function packBlock(kc: i32, nc: i32, rowsContiguous: bool, b: usize, rowB: usize, packed: usize): void {
  for (let j = 0; j < nc; j += NR) {
    const count = min(NR, nc - j);
    if (rowsContiguous) packColumns(kc, count, b + (<usize>j << 2), rowB, packed);
    else packRows(kc, count, 1, b + <usize>j * rowB, rowB, packed);
    packed += <usize>kc << 5;
  }
}

/** All tiles of an mc x nc block of C; panels of B are `panelStep` bytes apart, their rows `stepB`. */
function macrokernel(
  mc: i32, nc: i32, kc: i32, alpha: f32, a: usize, rsA: i32, csA: i32, b: usize, stepB: usize, panelStep: usize,
  beta: f32, c: usize, ldc: i32,
): void {
  const alpha4 = f32x4.splat(alpha), beta4 = f32x4.splat(beta);
  const rowC = <usize>ldc << 2;
  const reads = beta != 0;
  const order = csA == 1 ? ROWS : COLUMNS;
  const rowA = <usize>rsA << 2, stepA = <usize>csA << 2;
  for (let j = 0; j < nc; j += NR) {
    const nr = min(NR, nc - j);
    panel(order, GEMM, mc, kc, a, rowA, stepA, b, stepB, c, rowC, nr, alpha4, beta4, reads, 0);
    b += panelStep;
    c += 32;
  }
}

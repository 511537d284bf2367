// C = alpha * op(A) op(B) + beta * C over float32 matrices in place (BLAS sgemm, row-major).
//
// op(A): m x k, element (i, p) at a + 4 (i * rsA + p * csA); one of rsA, csA is 1 (a transpose is only a stride).
// op(B): k x n, element (p, j) at b + 4 (p * rsB + j * csB); one of rsB, csB is 1.
// C: m x n, row i at c + 4 i * ldc. Rows [begin, end) of C are computed.
// Reads A exactly, B and (where beta != 0) C up to READ_SLACK past their ends; writes C exactly.
// Scratch: gemmScratchBytes(m, n, k, csB), 16-byte aligned; packed panels of B live there.
// Edges: beta = 0 never reads C, so NaN there is legal; alpha = 0 or k = 0 gives beta * C; NaN in A or B is not hidden
//   by a zero in the other. C may not overlap A or B.
// Accuracy: per element a sum of k terms in blocks of KC, in order; the error of a plain float32 loop or less.
// Loops (BLIS): NC columns, KC depth, MC rows around panels of NR columns and tiles of MR rows.
//   A is not packed: it is read by broadcasts, which need no alignment and no contiguity across rows.
import { DIRECT_M, KC, MC, NC, NR } from "./config";
import { COLUMNS, GEMM, ROWS, panel } from "./microkernel";
import { packColumns, packRows } from "./pack";

/** True where B is used as it stands: rows contiguous and too few rows of A to repay a copy. */
@inline
function isDirect(m: i32, csB: i32): bool {
  return csB == 1 && m <= DIRECT_M;
}

/** Bytes of scratch that `gemm` needs. */
export function gemmScratchBytes(m: i32, n: i32, k: i32, csB: i32): usize {
  if (isDirect(m, csB)) return 0;
  const columns = (min(n, NC) + NR - 1) / NR * NR;
  return ((<usize>columns) * min(k, KC)) << 2;
}

export function gemm(
  m: i32, n: i32, k: i32, alpha: f32, a: usize, rsA: i32, csA: i32, b: usize, rsB: i32, csB: i32,
  beta: f32, c: usize, ldc: i32, scratch: usize, begin: i32, end: i32,
): void {
  if (alpha == 0 || k == 0) {
    for (let i = begin; i < end; ++i) scaleRow(n, beta, c + (((<usize>i) * ldc) << 2));
    return;
  }
  const direct = isDirect(m, csB);
  const rowB = (<usize>(csB == 1 ? rsB : csB)) << 2;
  for (let jc = 0; jc < n; jc += NC) {
    const nc = min(NC, n - jc);
    for (let pc = 0; pc < k; pc += KC) {
      const kc = min(KC, k - pc);
      const blockB = b + (((<usize>pc) * rsB + (<usize>jc) * csB) << 2);
      if (!direct) packBlock(kc, nc, csB == 1, blockB, rowB, scratch);
      for (let ic = begin; ic < end; ic += MC) {
        const mc = min(MC, end - ic);
        const blockA = a + (((<usize>ic) * rsA + (<usize>pc) * csA) << 2);
        const blockC = c + (((<usize>ic) * ldc + jc) << 2);
        macrokernel(
          mc, nc, kc, alpha, blockA, rsA, csA, direct ? blockB : scratch, direct ? rowB : 32,
          direct ? 32 : (<usize>kc) << 5, pc == 0 ? beta : 1, blockC, ldc,
        );
      }
    }
  }
}

/** One row of C where nothing is added to it: C = beta * C. */
function scaleRow(n: i32, beta: f32, row: usize): void {
  for (let j = 0; j < n; ++j) {
    const at = row + ((<usize>j) << 2);
    f32.store(at, beta == 0 ? 0 : beta * f32.load(at));
  }
}

/** Packs a kc x nc block of op(B) into panels of NR columns. */
function packBlock(kc: i32, nc: i32, rowsContiguous: bool, b: usize, rowB: usize, packed: usize): void {
  for (let j = 0; j < nc; j += NR) {
    const count = min(NR, nc - j);
    if (rowsContiguous) packColumns(kc, count, b + ((<usize>j) << 2), rowB, packed);
    else packRows(kc, count, 1, b + (<usize>j) * rowB, rowB, packed);
    packed += (<usize>kc) << 5;
  }
}

/** All tiles of an mc x nc block of C; panels of B are `panelStep` bytes apart, their rows `stepB`. */
function macrokernel(
  mc: i32, nc: i32, kc: i32, alpha: f32, a: usize, rsA: i32, csA: i32, b: usize, stepB: usize, panelStep: usize,
  beta: f32, c: usize, ldc: i32,
): void {
  const alpha4 = f32x4.splat(alpha), beta4 = f32x4.splat(beta);
  const rowC = (<usize>ldc) << 2;
  const reads = beta != 0;
  const order = csA == 1 ? ROWS : COLUMNS;
  const rowA = (<usize>rsA) << 2, stepA = (<usize>csA) << 2;
  for (let j = 0; j < nc; j += NR) {
    const nr = min(NR, nc - j);
    panel(order, GEMM, mc, kc, a, rowA, stepA, b, stepB, c, rowC, nr, alpha4, beta4, reads, 0);
    b += panelStep;
    c += 32;
  }
}

import { float64, type RefTensor, type Rounding } from "./rounding.ts";
import { indices, sizeOf } from "./shapes.ts";

/**
 * The softmax of the textbook, e^x_j / sum_k e^x_k, which overflows: e^1000 is Infinity in float64 (e^89
 * in float32), and Infinity / Infinity is NaN. Kept for what it teaches; the tests show it fail.
 */
export function naiveSoftmax(x: readonly number[]): number[] {
  const exps = x.map(Math.exp);
  const sum = exps.reduce((a, b) => a + b, 0);
  return exps.map((e) => e / sum);
}

interface RowStatistics {
  max: number;
  sum: number;
  exps: number[];
}

/** max_j x_j, e^(x_j - max) and their sum. Subtracting the maximum changes nothing but the overflow. */
export function rowStatistics(x: readonly number[], round: Rounding): RowStatistics {
  const max = x.reduce((a, b) => Math.max(a, b), -Infinity);
  const exps = x.map((xj) => round(Math.exp(round(xj - max))));
  const sum = exps.reduce((a, b) => round(a + b), 0);
  return { max, sum, exps };
}

/** p_j = e^(x_j - max) / sum_k e^(x_k - max). */
export function softmaxRow(x: readonly number[], round: Rounding): number[] {
  const { sum, exps } = rowStatistics(x, round);
  return exps.map((e) => round(e / sum));
}

/** log p_j = (x_j - max) - log sum_k e^(x_k - max). */
export function logSoftmaxRow(x: readonly number[], round: Rounding): number[] {
  const { max, sum } = rowStatistics(x, round);
  const logSum = round(Math.log(sum));
  return x.map((xj) => round(round(xj - max) - logSum));
}

/** log sum_j e^x_j = max + log sum_j e^(x_j - max). The sum over nothing, or over e^-Infinity, is 0. */
export function logSumExpRow(x: readonly number[], round: Rounding): number {
  const max = x.reduce((a, b) => Math.max(a, b), -Infinity);
  if (max === -Infinity) return -Infinity;
  if (max === Infinity) return Infinity;
  return round(max + round(Math.log(rowStatistics(x, round).sum)));
}

/** Softmax along one axis. */
export function softmax(x: RefTensor, axis = -1, round: Rounding = float64): RefTensor {
  return mapRows(x, axis, (row) => softmaxRow(row, round));
}

/** Logarithm of the softmax along one axis. */
export function logSoftmax(x: RefTensor, axis = -1, round: Rounding = float64): RefTensor {
  return mapRows(x, axis, (row) => logSoftmaxRow(row, round));
}

/** Log-sum-exp over one or several axes, which stay with length 1 or go. */
export function logSumExp(
  x: RefTensor,
  axis: number | readonly number[] = -1,
  keepDims = false,
  round: Rounding = float64,
): RefTensor {
  const axes = new Set((typeof axis === "number" ? [axis] : axis).map((a) => positive(a, x.shape)));
  const kept = x.shape.map((n, a) => (axes.has(a) ? 1 : n));
  const rows = Array.from({ length: sizeOf(kept) }, (): number[] => []);
  let source = 0;
  for (const index of indices(x.shape)) {
    let row = 0;
    for (let a = 0; a < kept.length; a++)
      row = row * (kept[a] as number) + (axes.has(a) ? 0 : (index[a] as number));
    rows[row]?.push(x.data[source++] as number);
  }
  const shape = keepDims ? kept : x.shape.filter((_, a) => !axes.has(a));
  return { data: Float64Array.from(rows, (row) => logSumExpRow(row, round)), shape };
}

/** dx_j = y_j (dOut_j - sum_k dOut_k y_k), from the result y. */
export function softmaxBackward(
  dOut: RefTensor,
  y: RefTensor,
  axis = -1,
  round: Rounding = float64,
): RefTensor {
  return mapRows(
    y,
    axis,
    (row, d) => {
      const sum = row.reduce((s, yk, k) => round(s + round((d[k] as number) * yk)), 0);
      return row.map((yj, j) => round(yj * round((d[j] as number) - sum)));
    },
    dOut,
  );
}

/** dx_j = dOut_j - e^y_j sum_k dOut_k, from the result y. */
export function logSoftmaxBackward(
  dOut: RefTensor,
  y: RefTensor,
  axis = -1,
  round: Rounding = float64,
): RefTensor {
  return mapRows(
    y,
    axis,
    (row, d) => {
      const sum = d.reduce((s, dk) => round(s + dk), 0);
      return row.map((yj, j) => round((d[j] as number) - round(round(Math.exp(yj)) * sum)));
    },
    dOut,
  );
}

/** dx = dOut softmax(x), dOut broadcast along the one axis that was reduced; the softmax is given. */
export function logSumExpBackward(
  dOut: RefTensor,
  shares: RefTensor,
  axis: number,
  round: Rounding = float64,
): RefTensor {
  const a = positive(axis, shares.shape);
  const inner = sizeOf(shares.shape.slice(a + 1));
  const n = shares.shape[a] as number;
  const data = Float64Array.from(shares.data, (p, i) => {
    const row = Math.floor(i / (n * inner)) * inner + (i % inner);
    return round(p * (dOut.data[row] as number));
  });
  return { data, shape: shares.shape };
}

const positive = (axis: number, shape: readonly number[]): number => (axis < 0 ? axis + shape.length : axis);

/** Applies f to each row of x along an axis, and to the same row of `other`. */
function mapRows(
  x: RefTensor,
  axis: number,
  f: (row: number[], other: number[]) => number[],
  other = x,
): RefTensor {
  const a = positive(axis, x.shape);
  const n = x.shape[a] as number;
  const stride = sizeOf(x.shape.slice(a + 1));
  const data = new Float64Array(x.data.length);
  for (let outer = 0; outer < sizeOf(x.shape.slice(0, a)); outer++) {
    for (let inner = 0; inner < stride; inner++) {
      const at = (j: number): number => (outer * n + j) * stride + inner;
      const row = (t: RefTensor) => Array.from({ length: n }, (_, j) => t.data[at(j)] as number);
      f(row(x), row(other)).forEach((y, j) => {
        data[at(j)] = y;
      });
    }
  }
  return { data, shape: x.shape };
}

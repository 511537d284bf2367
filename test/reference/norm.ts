import { float64, type RefTensor, type Rounding } from "./rounding.ts";
import { sizeOf } from "./shapes.ts";

export interface RefNormOptions {
  readonly weight?: RefTensor | undefined;
  readonly bias?: RefTensor | undefined;
  readonly axis?: number;
  readonly eps?: number;
  /** How the sums and statistics are rounded. Default: as the rest is. */
  readonly statistics?: Rounding | undefined;
}

export interface RefNorm {
  readonly out: RefTensor;
  readonly mean: RefTensor;
  readonly rstd: RefTensor;
}

const mean = (x: readonly number[], round: Rounding): number =>
  round(x.reduce((sum, xj) => round(sum + xj), 0) / x.length);

/** y = (x - mean) rstd weight + bias, rstd = 1 / sqrt(mean of (x - mean)^2 + eps), over the axes from `axis` on. */
export function layerNorm(x: RefTensor, options: RefNormOptions = {}, round: Rounding = float64): RefNorm {
  return normalize(x, { eps: 1e-5, ...options }, mean, round);
}

/** y = x rstd weight, rstd = 1 / sqrt(mean of x^2 + eps). */
export function rmsNorm(x: RefTensor, options: RefNormOptions = {}, round: Rounding = float64): RefTensor {
  return normalize(x, { eps: 2 ** -23, ...options }, () => 0, round).out;
}

function normalize(
  x: RefTensor,
  options: RefNormOptions & { eps: number },
  centre: (row: number[], round: Rounding) => number,
  round: Rounding,
): RefNorm {
  const { weight, bias, eps, axis = -1, statistics = round } = options;
  const first = axis < 0 ? axis + x.shape.length : axis;
  const n = sizeOf(x.shape.slice(first));
  const rows = sizeOf(x.shape.slice(0, first));
  const data = new Float64Array(x.data.length);
  const [means, rstds] = [new Float64Array(rows), new Float64Array(rows)];
  for (let i = 0; i < rows; i++) {
    const row = Array.from({ length: n }, (_, j) => x.data[i * n + j] as number);
    const m = centre(row, statistics);
    const d = row.map((xj) => statistics(xj - m));
    const variance = mean(
      d.map((dj) => statistics(dj * dj)),
      statistics,
    );
    const rstd = round(1 / statistics(Math.sqrt(statistics(variance + round(eps)))));
    d.forEach((dj, j) => {
      const scaled = round(round(round(dj) * rstd) * (weight ? (weight.data[j] as number) : 1));
      data[i * n + j] = round(scaled + (bias ? (bias.data[j] as number) : 0));
    });
    means[i] = round(m);
    rstds[i] = rstd;
  }
  const shape = x.shape.map((length, i) => (i < first ? length : 1));
  return { out: { data, shape: x.shape }, mean: { data: means, shape }, rstd: { data: rstds, shape } };
}

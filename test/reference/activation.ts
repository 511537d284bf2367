import { float64, type RefTensor, type Rounding } from "./rounding.ts";

/** erf(z) = 2 / sqrt(pi) e^(-z^2) sum_n 2^n z^(2n+1) / (2n+1)!!, all of one sign, for |z| < 3; 1 - erfc(z) beyond. */
export function erf(z: number): number {
  if (Number.isNaN(z)) return z;
  if (Math.abs(z) >= 3) return Math.sign(z) * (1 - erfc(Math.abs(z)));
  let sum = 0;
  for (let n = 0, term = z; Math.abs(term) > 1e-18 * Math.abs(sum); n++, term *= (2 * z * z) / (2 * n + 1))
    sum += term;
  return (2 / Math.sqrt(Math.PI)) * Math.exp(-z * z) * sum;
}

/** 1 - erf(z) for z >= 0, beyond 2 by its continued fraction e^(-z^2) / sqrt(pi) / (z + (1/2) / (z + 1 / (z + ...))). */
export function erfc(z: number): number {
  if (z < 2) return 1 - erf(z);
  if (z === Infinity) return 0;
  let fraction = z;
  for (let k = 100; k > 0; k--) fraction = z + k / 2 / fraction;
  return Math.exp(-z * z) / Math.sqrt(Math.PI) / fraction;
}

/** x Phi(x), without cancellation: what the results for negative x are measured by. */
export const geluExact = (x: number): number =>
  x < 0 ? (x / 2) * erfc(-x / Math.SQRT2) : (x / 2) * (1 + erf(x / Math.SQRT2));

/** The tanh approximation without cancellation, by 1 + tanh(u) = 2 / (1 + e^(-2u)). */
export const geluTanhExact = (x: number): number =>
  x / (1 + Math.exp(-2 * Math.sqrt(2 / Math.PI) * (x + 0.044715 * x ** 3)));

/** x (1 + erf(x / sqrt 2)) / 2, or with the tanh approximation x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2. */
export function gelu(
  x: RefTensor,
  approximate: "none" | "tanh" = "none",
  round: Rounding = float64,
): RefTensor {
  const bounded = (v: number): number => {
    if (approximate === "none") return round(erf(round(v * round(Math.SQRT1_2))));
    const cubic = round(round(0.044715) * round(round(v * v) * v));
    return round(Math.tanh(round(round(Math.sqrt(2 / Math.PI)) * round(v + cubic))));
  };
  const data = Float64Array.from(x.data, (v) => round(round(0.5 * v) * round(1 + bounded(v))));
  return { data, shape: x.shape };
}

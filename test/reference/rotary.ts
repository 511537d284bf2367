import { float64, type RefTensor, type Rounding } from "./rounding.ts";
import { indices } from "./shapes.ts";

export interface RefRotaryOptions {
  readonly positionIds?: Int32Array;
  readonly positionOffset?: number;
  readonly interleaved?: boolean;
  readonly rotaryDim?: number;
  readonly layout?: "bhld" | "blhd";
}

/**
 * Pairs (x1, x2) of each row become (cos x1 - sin x2, sin x1 + cos x2). Of the first rotaryDim elements the pairs are
 * the halves, or where interleaved the neighbours. cos and sin have a row for each position (rank 2) or each token.
 */
export function rotaryEmbedding(
  x: RefTensor,
  cos: RefTensor,
  sin: RefTensor,
  options: RefRotaryOptions = {},
  round: Rounding = float64,
): RefTensor {
  const { positionIds, positionOffset = 0, interleaved = false, layout = "bhld" } = options;
  const d = x.shape.at(-1) as number;
  const half = (options.rotaryDim ?? d) / 2;
  const lengthAxis = x.shape.length - (layout === "blhd" ? 3 : 2);
  const length = x.shape[lengthAxis] as number;
  const data = Float64Array.from(x.data);
  let row = 0;
  for (const index of indices(x.shape.slice(0, -1))) {
    const token = index[lengthAxis] as number;
    // The flat index over the batch axes: those before heads and length.
    const batch = index.slice(0, -2).reduce((at, i, axis) => at * (x.shape[axis] as number) + i, 0);
    const own = batch * length + token;
    const id = positionIds?.[positionIds.length === length ? token : own];
    const position = cos.shape.length > 2 ? own : (id ?? token + positionOffset);
    for (let j = 0; j < half; j++) {
      const [first, second] = interleaved ? [2 * j, 2 * j + 1] : [j, half + j];
      const [x1, x2] = [x.data[row * d + first] as number, x.data[row * d + second] as number];
      const [c, s] = [cos.data[position * half + j] as number, sin.data[position * half + j] as number];
      data[row * d + first] = round(round(c * x1) - round(s * x2));
      data[row * d + second] = round(round(s * x1) + round(c * x2));
    }
    row++;
  }
  return { data, shape: x.shape };
}

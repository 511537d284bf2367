// What stands between products in a transformer: options and results.
import type { ElementwiseOptions } from "./dense.ts";
import type { Layout, Tensor, TensorLike } from "./tensor.ts";

/** Options of gelu. */
export interface GeluOptions extends ElementwiseOptions {
  /** "none" (default): by the error function. "tanh": the approximation of Hendrycks and Gimpel. */
  readonly approximate?: "none" | "tanh" | undefined;
}

/** Options of rmsNorm. */
export interface RmsNormOptions {
  /** Factor on each element after the division, shape x.shape.slice(axis). Default: none. */
  readonly weight?: TensorLike | undefined;
  /** First of the axes that are normalised together, up to the last; negative counts from the end. Default -1. */
  readonly axis?: number | undefined;
  /** Added to the mean of the squares, 0 or more. Default 2 ** -23, as in PyTorch. */
  readonly eps?: number | undefined;
  /** Write the result here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Options of layerNorm. */
export interface LayerNormOptions {
  /** Factor on each normalised element, shape x.shape.slice(axis). Default: none. */
  readonly weight?: TensorLike | undefined;
  /** Added after the weight, shape x.shape.slice(axis). Default: none. */
  readonly bias?: TensorLike | undefined;
  /** First of the axes that are normalised together, up to the last; negative counts from the end. Default -1. */
  readonly axis?: number | undefined;
  /** Added to the variance, 0 or more. Default 1e-5. */
  readonly eps?: number | undefined;
  /** Return mean and reciprocal standard deviation beside the output. Default false. */
  readonly returnStats?: boolean | undefined;
  /** Write the output here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Output of layerNorm with its statistics, shape [...x.shape.slice(0, axis), 1, ..., 1]. */
export interface LayerNormWithStats<Out = Tensor, Stats = Out> {
  out: Out;
  /** Mean of each row. */
  mean: Stats;
  /** 1 / sqrt(variance + eps) of each row. */
  rstd: Stats;
}

/** Options of rotaryEmbedding. */
export interface RotaryOptions {
  /** Row of cos and sin for each token: one entry for each of length tokens, or for those of each batch entry. */
  readonly positionIds?: Int32Array | undefined;
  /** Without positionIds token i stands at position i + positionOffset. Default 0. */
  readonly positionOffset?: number | undefined;
  /** Pairs are neighbours, (0, 1), (2, 3), ... Default false: element j of the first half with j of the second. */
  readonly interleaved?: boolean | undefined;
  /** Leading elements of a row that turn; the others pass through. Even. Default: all. */
  readonly rotaryDim?: number | undefined;
  /** "bhld" (default) [batch, heads, length, headDim]; "blhd" [batch, length, heads, headDim]. */
  readonly layout?: Layout | undefined;
  /** Write the result here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Options of rotaryTables. */
export interface RotaryTablesOptions {
  /** Wavelengths are 2 pi base ** (2 j / rotaryDim). Default 10000. */
  readonly base?: number | undefined;
  /** Position of row 0. Default 0. */
  readonly offset?: number | undefined;
}

/** Cosines and sines of the angles of each position, [length, rotaryDim / 2]. */
export interface RotaryTables {
  cos: Tensor;
  sin: Tensor;
}

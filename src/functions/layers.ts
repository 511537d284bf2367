// The free functions of what stands between products in a transformer, on the default runtime.
// What each function throws stands at Operations; here is what one throws beyond that.

import type {
  ElementwiseFunction,
  GeluFunction,
  LayerNormFunction,
  Operations,
  RmsNormFunction,
  RotaryFunction,
  RotaryTablesFunction,
} from "../operations.ts";
import { rotaryTables as tables } from "../rotary.ts";
import type { ElementwiseOptions } from "../types/dense.ts";
import type { GeluOptions, LayerNormOptions, RmsNormOptions, RotaryOptions } from "../types/layers.ts";
import type { TensorLike } from "../types/tensor.ts";
import { defaultRuntime } from "./default-runtime.ts";

/**
 * (x - mean) / sqrt(variance + eps) * weight + bias, over the axes of x from `axis` (default the last) to the last.
 *
 * weight and bias have the shape x.shape.slice(axis). The result has the shape of x; with `returnStats: true` it is
 * `{ out, mean, rstd }`, mean and rstd = 1 / sqrt(variance + eps) of shape [...x.shape.slice(0, axis), 1, ..., 1]. The
 * variance is that of the elements themselves, divided by their number; sums are float64. Over nothing the mean is NaN.
 *
 * @throws {RangeError} for an axis outside the rank, a weight or bias of another shape, a negative eps. What every
 * operation throws: {@link Operations}.
 * @see Ba, Kiros and Hinton 2016, "Layer Normalization"; torch.nn.functional.layer_norm; ONNX LayerNormalization-17.
 * @example
 * layerNorm({ data: Float32Array.of(1, 2, 3), shape: [3] }).data; // [-1.224736, 0, 1.224736]
 */
export const layerNorm: LayerNormFunction = ((x: TensorLike, options?: LayerNormOptions) =>
  defaultRuntime().layerNorm(x, options)) as LayerNormFunction;

/**
 * x / sqrt(mean(x²) + eps) * weight, over the axes of x from `axis` (default the last) to the last.
 *
 * @throws {RangeError} for an axis outside the rank, a weight of another shape, a negative eps. What every operation
 * throws: {@link Operations}.
 * @see Zhang and Sennrich 2019, "Root Mean Square Layer Normalization"; torch.nn.functional.rms_norm; ONNX
 * RMSNormalization-23, whose epsilon is 1e-5 by default.
 * @example
 * rmsNorm({ data: Float32Array.of(3, 4), shape: [2] }).data; // [0.848528, 1.131371]
 */
export const rmsNorm: RmsNormFunction = ((x: TensorLike, options?: RmsNormOptions) =>
  defaultRuntime().rmsNorm(x, options)) as RmsNormFunction;

/**
 * max(x, 0), elementwise; NaN stays NaN.
 *
 * @throws what every operation does ({@link Operations}).
 * @example
 * relu({ data: Float32Array.of(-1, 2), shape: [2] }).data; // [0, 2]
 */
export const relu: ElementwiseFunction = ((x: TensorLike, options?: ElementwiseOptions) =>
  defaultRuntime().relu(x, options)) as ElementwiseFunction;

/**
 * x Φ(x), elementwise, Φ(x) = (1 + erf(x / √2)) / 2; with `approximate: "tanh"` x (1 + tanh(√(2/π) (x + 0.044715 x³))) / 2.
 * Small results for negative x keep their digits; gelu(-Infinity) is 0, the limit.
 *
 * @throws {TypeError} for another `approximate`. What every operation throws: {@link Operations}.
 * @see Hendrycks and Gimpel 2016, "Gaussian Error Linear Units".
 * @example
 * gelu({ data: Float32Array.of(-1, 0, 1), shape: [3] }).data; // [-0.158655, 0, 0.841345]
 */
export const gelu: GeluFunction = ((x: TensorLike, options?: GeluOptions) =>
  defaultRuntime().gelu(x, options)) as GeluFunction;

/**
 * Rotary position embedding: the pairs of each row of x turned by the angles of its position, (cos x1 - sin x2, sin x1 +
 * cos x2). Dot products of turned queries and keys then depend on the distance of their positions alone.
 *
 * Shapes: x [..., heads, length, headDim] or [length, headDim], with `layout: "blhd"` [..., length, heads, headDim]; the
 * result is that of x. cos and sin are tables [positions, rotaryDim / 2], whose rows `positionIds` names; without,
 * token i reads row i + `positionOffset`. Or they have a row for each token, [..., length, rotaryDim / 2]. Elements from
 * `rotaryDim` on pass through.
 *
 * @throws {RangeError} for shapes that do not fit, a position outside the tables, an odd rotaryDim.
 * @throws {TypeError} for positionIds and positionOffset at once. What every operation throws: {@link Operations}.
 * @see Su et al. 2021, "RoFormer", 3.2.2; ONNX RotaryEmbedding-23.
 * @example
 * const { cos, sin } = rotaryTables(4096, 64);
 * const query = { data: new Float32Array(8 * 64), shape: [1, 8, 1, 64] };
 * rotaryEmbedding(query, cos, sin, { positionOffset: 17, out: query });
 */
export const rotaryEmbedding: RotaryFunction = ((
  x: TensorLike,
  cos: TensorLike,
  sin: TensorLike,
  options?: RotaryOptions,
) => defaultRuntime().rotaryEmbedding(x, cos, sin, options)) as RotaryFunction;

/**
 * The cosines and sines for {@link rotaryEmbedding}, plain tensors [length, rotaryDim / 2]: the angle of pair j at
 * position p is p * base ** (-2 j / rotaryDim), computed in float64. Row 0 is position `offset`.
 *
 * @throws {RangeError} for an odd rotaryDim, a base that is not positive, numbers that are no integers, and tables
 * beyond what a Wasm memory holds.
 * @see Su et al. 2021, "RoFormer", 3.2.2.
 * @example
 * rotaryTables(2, 2).cos.data; // [1, 0.540302]
 */
export const rotaryTables: RotaryTablesFunction = tables;

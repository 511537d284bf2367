// The free functions, on one default runtime that is made when the first of them is called. What each of them throws
// stands at Operations; here is what one throws beyond that.
import type {
  AttentionFunction,
  ExpFunction,
  LogSumExpFunction,
  MatmulFunction,
  MergeAttentionFunction,
  Operations,
  ScaleFunction,
  SoftmaxFunction,
} from "./operations.ts";
import { createRuntimeSync, type Runtime } from "./runtime.ts";
import type { ResidentTensor } from "./tensor.ts";
import type {
  AttentionOptions,
  AttentionPart,
  ElementwiseOptions,
  LogSumExpOptions,
  MatmulOptions,
  MergeAttentionOptions,
  RuntimeInfo,
  Shape,
  SoftmaxOptions,
  TensorLike,
} from "./types.ts";

let runtime: Runtime | undefined;

function defaultRuntime(): Runtime {
  runtime ??= createRuntimeSync();
  return runtime;
}

/**
 * Scaled dot-product attention, softmax(scale * query keyᵀ + mask) value, tile by tile: the scores are never stored.
 *
 * Shapes: query [..., heads, queryLength, headDim], key [..., kvHeads, keyLength, headDim], value [..., kvHeads,
 * keyLength, valueDim]; heads must be a multiple of kvHeads (grouped-query attention); rank 2 is one head. With
 * `layout: "blhd"` length comes before heads in all of them. The leading axes of query, key and value are all those of
 * the result or all 1: one batch entry serves every other. The result is [..., heads, queryLength, valueDim]; with
 * `returnLse: true` it is `{ out, lse }`, lse [..., heads, queryLength] in either layout. A row that sees no key gives 0,
 * lse -Infinity.
 *
 * @throws {RangeError} for shapes that do not fit each other, and values of options outside their range.
 * @throws {TypeError} for queryOffset and causalAlignment at once. What every operation throws: {@link Operations}.
 * @see Vaswani et al. 2017, "Attention Is All You Need", 3.2.1; Dao et al. 2022, "FlashAttention", algorithm 1.
 * @example
 * const q = { data: new Float32Array(8 * 128 * 64), shape: [1, 8, 128, 64] };
 * const out = scaledDotProductAttention(q, q, q, { isCausal: true }); // { data: Float32Array, shape: [1, 8, 128, 64] }
 */
export const scaledDotProductAttention: AttentionFunction = ((
  query: TensorLike,
  key: TensorLike,
  value: TensorLike,
  options?: AttentionOptions,
) => defaultRuntime().scaledDotProductAttention(query, key, value, options)) as AttentionFunction;

/**
 * Merges partial results of attention over disjoint keys into the result over all of them, in the order of the parts.
 *
 * Each part is what returnLse gives: out [..., heads, queryLength, valueDim] (by layout), lse [..., heads, queryLength].
 * With max the largest lse of a row: out = sum(e^(lse - max) out) / sum(e^(lse - max)), lse = max + log of that sum,
 * computed in float64. A part without keys (lse -Infinity) changes nothing; a sink must be in one part only.
 *
 * @throws {TypeError} where parts is empty or a part is no { out, lse }.
 * @throws {RangeError} for shapes that differ or do not belong together.
 * @see Juravsky et al. 2024, "Hydragen", 3.2.
 * @example
 * const some = scaledDotProductAttention(query, keys1, values1, { returnLse: true });
 * const others = scaledDotProductAttention(query, keys2, values2, { returnLse: true });
 * const { out, lse } = mergeAttention([some, others]);
 */
export const mergeAttention: MergeAttentionFunction = ((
  parts: readonly AttentionPart[],
  options?: MergeAttentionOptions,
) => defaultRuntime().mergeAttention(parts, options)) as MergeAttentionFunction;

/**
 * Matrix product alpha * op(a) @ op(b) + beta * c. Batch axes broadcast as in NumPy; a vector on the left is a row,
 * on the right a column.
 *
 * Shapes: a [..., m, k], b [..., k, n] (transposed by transposeA, transposeB), result [..., m, n]. NaN is not hidden by
 * a zero; beta = 0 never reads c.
 *
 * @throws {RangeError} for inner lengths, batch axes or c that do not fit.
 * @throws {TypeError} for beta without c. What every operation throws: {@link Operations}.
 * @see Van Zee and van de Geijn 2015, "BLIS", for the blocking.
 * @example
 * matmul({ data: Float32Array.of(1, 2, 3, 4), shape: [2, 2] }, { data: Float32Array.of(5, 6), shape: [2] }).data; // [17, 39]
 */
export const matmul: MatmulFunction = ((a: TensorLike, b: TensorLike, options?: MatmulOptions) =>
  defaultRuntime().matmul(a, b, options)) as MatmulFunction;

/**
 * exp(x - max) / sum(exp(x - max)) along an axis (default the last): the maximum is subtracted, so it never overflows.
 *
 * The result has the shape of x. A row that holds NaN or +Infinity, or -Infinity alone, is NaN, as in PyTorch.
 *
 * @throws {RangeError} for an axis outside the rank. What every operation throws: {@link Operations}.
 * @see Blanchard, Higham and Higham 2021, "Accurately computing the log-sum-exp and softmax functions".
 * @example
 * softmax({ data: Float32Array.of(1000, 1001, 999), shape: [3] }).data; // [0.244728, 0.665241, 0.090031]
 */
export const softmax: SoftmaxFunction = ((x: TensorLike, options?: SoftmaxOptions) =>
  defaultRuntime().softmax(x, options)) as SoftmaxFunction;

/**
 * x - logSumExp(x) along an axis (default the last): the logarithm of softmax, without its underflow.
 *
 * @throws {RangeError} for an axis outside the rank. What every operation throws: {@link Operations}.
 * @example
 * logSoftmax({ data: Float32Array.of(0, 0), shape: [2] }).data; // [-0.693147, -0.693147]
 */
export const logSoftmax: SoftmaxFunction = ((x: TensorLike, options?: SoftmaxOptions) =>
  defaultRuntime().logSoftmax(x, options)) as SoftmaxFunction;

/**
 * max + log(sum(exp(x - max))) over one axis or several (default the last), which are dropped unless keepDims.
 *
 * An empty axis, and one of -Infinity alone, give -Infinity.
 *
 * @throws {RangeError} for an axis outside the rank or named twice. What every operation throws: {@link Operations}.
 * @example
 * logSumExp({ data: Float32Array.of(1000, 1000), shape: [2] }); // { data: [1000.6932], shape: [] }
 */
export const logSumExp: LogSumExpFunction = ((x: TensorLike, options?: LogSumExpOptions) =>
  defaultRuntime().logSumExp(x, options)) as LogSumExpFunction;

/**
 * alpha * x. The 1/√d_k of attention: scores of unit-variance queries and keys have variance d_k, and unscaled they
 * saturate the softmax, whose gradients p(1 - p) vanish.
 *
 * @throws what every operation does ({@link Operations}).
 * @see Vaswani et al. 2017, 3.2.1 and footnote 4.
 * @example
 * scale({ data: Float32Array.of(8, 16), shape: [2] }, 1 / Math.sqrt(64)).data; // [1, 2]
 */
export const scale: ScaleFunction = ((x: TensorLike, alpha: number, options?: ElementwiseOptions) =>
  defaultRuntime().scale(x, alpha, options)) as ScaleFunction;

/**
 * exp(x), elementwise, by the vector kernel inside softmax: within 1.5 ulp on [-87, 0]. Results below the smallest
 * normal float32 are 0; NaN stays NaN.
 *
 * @throws what every operation does ({@link Operations}).
 * @example
 * exp({ data: Float32Array.of(0, -Infinity), shape: [2] }).data; // [1, 0]
 */
export const exp: ExpFunction = ((x: TensorLike, options?: ElementwiseOptions) =>
  defaultRuntime().exp(x, options)) as ExpFunction;

/**
 * A tensor that lives in Wasm memory, for operands that are used often: no copy in or out. Zeros without `data`.
 *
 * @throws {RangeError} where `data` does not fill the shape, or memory is exhausted.
 * @example
 * using keys = tensor([2, 3], Float32Array.of(1, 2, 3, 4, 5, 6));
 */
export const tensor = (shape: Shape, data?: Float32Array): ResidentTensor =>
  defaultRuntime().tensor(shape, data);

/** What the default runtime uses, and why not something better. */
export const info = (): RuntimeInfo => defaultRuntime().info();

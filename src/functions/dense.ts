// The free functions of matrix products and of elementwise operations, on the default runtime.
// What each function throws stands at Operations; here is what one throws beyond that.

import type {
  AddFunction,
  ElementwiseFunction,
  MatmulBackwardFunction,
  MatmulFunction,
  Operations,
  ScaleFunction,
} from "../operations.ts";
import type { ElementwiseOptions, MatmulBackwardInputs, MatmulOptions } from "../types/dense.ts";
import type { TensorLike } from "../types/tensor.ts";
import { defaultRuntime } from "./default-runtime.ts";

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
 * Gradients of {@link matmul} from that of its result: dA = alpha * dOut @ op(b)ᵀ, dB = alpha * op(a)ᵀ @ dOut, each
 * transposed where its operand is, and where c is given dC = beta * dOut. Each has the shape of its operand and is summed,
 * in order, over the axes along which that was broadcast.
 *
 * @throws {RangeError} for a dOut of another shape than the result, and what matmul refuses.
 * @throws {TypeError} for beta without c. What every operation throws: {@link Operations}.
 * @example
 * const [a, b] = [{ data: Float32Array.of(1, 2), shape: [1, 2] }, { data: Float32Array.of(3, 4), shape: [2, 1] }];
 * matmulBackward({ dOut: { data: Float32Array.of(1), shape: [1, 1] }, a, b }); // dA.data [3, 4], dB.data [1, 2]
 */
export const matmulBackward: MatmulBackwardFunction = ((inputs: MatmulBackwardInputs) =>
  defaultRuntime().matmulBackward(inputs)) as MatmulBackwardFunction;

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
 * x + y, elementwise, of two tensors of one shape: the residual sums of a transformer. `out` may be x or y.
 *
 * @throws {RangeError} for shapes that differ. What every operation throws: {@link Operations}.
 * @example
 * add({ data: Float32Array.of(1, 2), shape: [2] }, { data: Float32Array.of(10, 20), shape: [2] }).data; // [11, 22]
 */
export const add: AddFunction = ((x: TensorLike, y: TensorLike, options?: ElementwiseOptions) =>
  defaultRuntime().add(x, y, options)) as AddFunction;

/**
 * exp(x), elementwise, by the vector kernel inside softmax: within 1.5 ulp on [-87, 0]. Results below the smallest
 * normal float32 are 0; NaN stays NaN.
 *
 * @throws what every operation does ({@link Operations}).
 * @example
 * exp({ data: Float32Array.of(0, -Infinity), shape: [2] }).data; // [1, 0]
 */
export const exp: ElementwiseFunction = ((x: TensorLike, options?: ElementwiseOptions) =>
  defaultRuntime().exp(x, options)) as ElementwiseFunction;

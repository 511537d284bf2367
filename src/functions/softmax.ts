// The free functions of the softmax family, on the default runtime.
// What each function throws stands at Operations; here is what one throws beyond that.

import type {
  LogSumExpFunction,
  Operations,
  SoftmaxBackwardFunction,
  SoftmaxFunction,
} from "../operations.ts";
import type { LogSumExpOptions, SoftmaxOptions } from "../types/softmax.ts";
import type { TensorLike } from "../types/tensor.ts";
import { defaultRuntime } from "./default-runtime.ts";

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
 * Gradient of softmax: y (dOut - sum(dOut y)) along the axis, dOut the gradient of its result y. `out` may be either.
 *
 * @throws {RangeError} for shapes that differ and an axis outside the rank. What every operation throws:
 * {@link Operations}.
 * @see torch._softmax_backward_data.
 * @example
 * const y = softmax({ data: Float32Array.of(0, 0), shape: [2] });
 * softmaxBackward({ data: Float32Array.of(1, 0), shape: [2] }, y).data; // [0.25, -0.25]
 */
export const softmaxBackward: SoftmaxBackwardFunction = ((
  dOut: TensorLike,
  y: TensorLike,
  options?: SoftmaxOptions,
) => defaultRuntime().softmaxBackward(dOut, y, options)) as SoftmaxBackwardFunction;

/**
 * Gradient of logSoftmax: dOut - exp(y) sum(dOut) along the axis, dOut the gradient of its result y. `out` may be either.
 *
 * @throws {RangeError} for shapes that differ and an axis outside the rank. What every operation throws:
 * {@link Operations}.
 * @see torch._log_softmax_backward_data.
 * @example
 * const y = logSoftmax({ data: Float32Array.of(0, 0), shape: [2] });
 * logSoftmaxBackward({ data: Float32Array.of(1, 0), shape: [2] }, y).data; // [0.5, -0.5]
 */
export const logSoftmaxBackward: SoftmaxBackwardFunction = ((
  dOut: TensorLike,
  y: TensorLike,
  options?: SoftmaxOptions,
) => defaultRuntime().logSoftmaxBackward(dOut, y, options)) as SoftmaxBackwardFunction;

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

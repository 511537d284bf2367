// The options of the softmax family.
import type { TensorLike } from "./tensor.ts";

/** Options of softmax and logSoftmax, and of their gradients. */
export interface SoftmaxOptions {
  /** Axis that sums to one; negative counts from the end. Default -1. */
  readonly axis?: number | undefined;
  /** Write the result here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Options of logSumExp. */
export interface LogSumExpOptions {
  /** Axis or axes to reduce; negative counts from the end. Default -1. An empty list reduces nothing. */
  readonly axis?: number | readonly number[] | undefined;
  /** Keep the reduced axes with length 1. Default false. */
  readonly keepDims?: boolean | undefined;
  /** Write the result here instead of allocating it. */
  readonly out?: TensorLike | undefined;
}

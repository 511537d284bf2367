// What matmul and its gradients take and give, and the options of the elementwise operations.
import type { Tensor, TensorLike } from "./tensor.ts";

/** Options of {@link Runtime.matmul}: out = alpha * op(a) @ op(b) + beta * c. */
export interface MatmulOptions {
  /** Read a as its transpose over the last two axes. Default false. */
  readonly transposeA?: boolean | undefined;
  /** Read b as its transpose over the last two axes. Default false. */
  readonly transposeB?: boolean | undefined;
  /** Factor on the product. Default 1. */
  readonly alpha?: number | undefined;
  /** Factor on c. Default 1 where c is given. 0 never reads c. */
  readonly beta?: number | undefined;
  /** Added to the product; broadcast one way to the shape of the result. */
  readonly c?: TensorLike | undefined;
  /** Write the result here instead of allocating it. */
  readonly out?: TensorLike | undefined;
}

/** What matmulBackward takes: the gradient of the result, and the operands and options of the matmul that gave it. */
export interface MatmulBackwardInputs extends Omit<MatmulOptions, "out"> {
  /** Gradient of the result, of its shape. */
  readonly dOut: TensorLike;
  readonly a: TensorLike;
  readonly b: TensorLike;
}

/** Gradients of the operands of matmul, each of the shape of its operand. */
export interface MatmulGradients<T = Tensor> {
  dA: T;
  dB: T;
  /** Where c was given. */
  dC?: T;
}

/** Options of the elementwise operations. */
export interface ElementwiseOptions {
  /** Write the result here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

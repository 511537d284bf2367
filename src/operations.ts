// The operations of a runtime by their types. Where every tensor operand is resident the result is resident, and the
// caller's to dispose; otherwise it is a plain tensor. `out`, where given, takes the result and is returned.
import type { ResidentTensor } from "./tensor.ts";
import type {
  AttentionOptions,
  AttentionWithLse,
  ElementwiseOptions,
  LogSumExpOptions,
  MatmulOptions,
  Shape,
  SoftmaxOptions,
  Tensor,
  TensorLike,
} from "./types.ts";

type R = ResidentTensor;
type WithLse = AttentionOptions & { readonly returnLse: true };

export interface AttentionFunction {
  (query: R, key: R, value: R, options: WithLse): AttentionWithLse<R>;
  (query: R, key: R, value: R, options?: AttentionOptions & { readonly returnLse?: false | undefined }): R;
  (query: TensorLike, key: TensorLike, value: TensorLike, options: WithLse): AttentionWithLse;
  (
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    options?: AttentionOptions & { readonly returnLse?: false | undefined },
  ): Tensor;
  (
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    options?: AttentionOptions,
  ): Tensor | AttentionWithLse;
}

export interface MatmulFunction {
  (a: R, b: R, options?: MatmulOptions & { readonly c?: R | undefined }): R;
  (a: TensorLike, b: TensorLike, options?: MatmulOptions): Tensor;
}

export interface SoftmaxFunction {
  (x: R, options?: SoftmaxOptions): R;
  (x: TensorLike, options?: SoftmaxOptions): Tensor;
}

export interface LogSumExpFunction {
  (x: R, options?: LogSumExpOptions): R;
  (x: TensorLike, options?: LogSumExpOptions): Tensor;
}

export interface ScaleFunction {
  (x: R, alpha: number, options?: ElementwiseOptions): R;
  (x: TensorLike, alpha: number, options?: ElementwiseOptions): Tensor;
}

export interface ExpFunction {
  (x: R, options?: ElementwiseOptions): R;
  (x: TensorLike, options?: ElementwiseOptions): Tensor;
}

/** Everything that computes: the methods of a runtime, and the free functions on the default one. */
export interface Operations {
  readonly scaledDotProductAttention: AttentionFunction;
  readonly matmul: MatmulFunction;
  readonly softmax: SoftmaxFunction;
  readonly logSoftmax: SoftmaxFunction;
  readonly logSumExp: LogSumExpFunction;
  readonly scale: ScaleFunction;
  readonly exp: ExpFunction;
  readonly tensor: (shape: Shape, data?: Float32Array) => ResidentTensor;
}

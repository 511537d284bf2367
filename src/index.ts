export {
  mergeAttention,
  scaledDotProductAttention,
  scaledDotProductAttentionBackward,
} from "./functions/attention.ts";
export { info, tensor } from "./functions/default-runtime.ts";
export { exp, matmul, scale } from "./functions/dense.ts";
export { logSoftmax, logSumExp, softmax } from "./functions/softmax.ts";
export type {
  AttentionBackwardFunction,
  AttentionFunction,
  ExpFunction,
  LogSumExpFunction,
  MatmulFunction,
  MergeAttentionFunction,
  Operations,
  ScaleFunction,
  SoftmaxFunction,
} from "./operations.ts";
export type { Runtime } from "./runtime.ts";
export { createRuntime, createRuntimeSync } from "./runtime.ts";
export type { ResidentTensor } from "./tensor.ts";
export type {
  AttentionBackwardInputs,
  AttentionGradients,
  AttentionOptions,
  AttentionPart,
  AttentionWithLse,
  BooleanData,
  CausalAlignment,
  ElementwiseOptions,
  Layout,
  LogSumExpOptions,
  MaskLike,
  MatmulOptions,
  MergeAttentionOptions,
  RuntimeInfo,
  RuntimeOptions,
  Shape,
  SoftmaxOptions,
  Tensor,
  TensorLike,
  Variant,
} from "./types.ts";

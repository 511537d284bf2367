export {
  exp,
  info,
  logSoftmax,
  logSumExp,
  matmul,
  mergeAttention,
  scale,
  scaledDotProductAttention,
  softmax,
  tensor,
} from "./functions.ts";
export type {
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

export {
  mergeAttention,
  multiHeadAttention,
  scaledDotProductAttention,
  scaledDotProductAttentionBackward,
} from "./functions/attention.ts";
export { keyValueCache } from "./functions/cache.ts";
export { info, tensor } from "./functions/default-runtime.ts";
export { add, exp, matmul, matmulBackward, scale } from "./functions/dense.ts";
export { gelu, layerNorm, relu, rmsNorm, rotaryEmbedding, rotaryTables } from "./functions/layers.ts";
export {
  logSoftmax,
  logSoftmaxBackward,
  logSumExp,
  softmax,
  softmaxBackward,
} from "./functions/softmax.ts";
export type { KeyValueCache } from "./key-value-cache.ts";
export type {
  HeadRotary,
  MultiHeadAttentionOptions,
  ProjectionWeights,
  WeightLayout,
} from "./multi-head-attention-types.ts";
export type {
  AddFunction,
  AttendFunction,
  AttentionBackwardFunction,
  AttentionFunction,
  ExpFunction,
  GeluFunction,
  LayerNormFunction,
  LogSumExpFunction,
  MatmulBackwardFunction,
  MatmulFunction,
  MergeAttentionFunction,
  MultiHeadAttentionFunction,
  Operations,
  RmsNormFunction,
  RotaryFunction,
  RotaryTablesFunction,
  ScaleFunction,
  SoftmaxBackwardFunction,
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
  CacheAttentionOptions,
  CausalAlignment,
  ElementwiseOptions,
  GeluOptions,
  KeyValueCacheOptions,
  LayerNormOptions,
  LayerNormWithStats,
  Layout,
  LogSumExpOptions,
  MaskLike,
  MatmulBackwardInputs,
  MatmulGradients,
  MatmulOptions,
  MergeAttentionOptions,
  RmsNormOptions,
  RotaryOptions,
  RotaryTables,
  RotaryTablesOptions,
  RuntimeInfo,
  RuntimeOptions,
  Shape,
  SoftmaxOptions,
  Tensor,
  TensorLike,
  Variant,
} from "./types.ts";

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
  AddFunction,
  AttendFunction,
  AttentionBackwardFunction,
  AttentionFunction,
  ElementwiseFunction,
  GeluFunction,
  LayerNormFunction,
  LogSumExpFunction,
  MatmulBackwardFunction,
  MatmulFunction,
  MergeAttentionFunction,
  MultiHeadAttentionFunction,
  Operations,
  ResidentMultiHeadAttentionOptions,
  RmsNormFunction,
  RotaryFunction,
  RotaryTablesFunction,
  ScaleFunction,
  SoftmaxBackwardFunction,
  SoftmaxFunction,
  UnaryFunction,
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
  MaskLike,
  MergeAttentionOptions,
} from "./types/attention.ts";
export type { CacheAttentionOptions, KeyValueCacheOptions } from "./types/cache.ts";
export type {
  ElementwiseOptions,
  MatmulBackwardInputs,
  MatmulGradients,
  MatmulOptions,
} from "./types/dense.ts";
export type {
  GeluOptions,
  LayerNormOptions,
  LayerNormWithStats,
  RmsNormOptions,
  RotaryOptions,
  RotaryTables,
  RotaryTablesOptions,
} from "./types/layers.ts";
export type {
  HeadRotary,
  MultiHeadAttentionOptions,
  ProjectionWeights,
  WeightLayout,
} from "./types/multi-head-attention.ts";
export type { RuntimeInfo, RuntimeOptions, Variant, WasmModule } from "./types/runtime.ts";
export type { LogSumExpOptions, SoftmaxOptions } from "./types/softmax.ts";
export type { Layout, Shape, Tensor, TensorLike } from "./types/tensor.ts";

export { attention } from "./attention.ts";
export { layerNormalization, rmsNormalization } from "./normalization.ts";
export { gemm, matMul } from "./products.ts";
export { rotaryEmbedding } from "./rotary.ts";
export { logSoftmax, reduceLogSumExp, softmax } from "./softmax.ts";
export type {
  AttentionAttributes,
  AttentionInputs,
  AttentionOnnxOptions,
  AttentionOutputName,
  AttentionOutputs,
  FloatTensor,
  GemmAttributes,
  HalfArray,
  IntegerTensor,
  LayerNormalizationOptions,
  LayerNormalizationOutputName,
  LayerNormalizationOutputs,
  MaskTensor,
  MatMulAttributes,
  NormalizationAttributes,
  OnnxOptions,
  ReduceAttributes,
  RotaryAttributes,
  RotaryInputs,
  SoftmaxAttributes,
} from "./types.ts";

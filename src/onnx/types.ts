// Types of the ONNX operators: attributes, inputs and results by their ONNX names.
import type { Runtime } from "../runtime.ts";
import type { BooleanData } from "../types/attention.ts";
import type { Shape, Tensor } from "../types/tensor.ts";

/** Data with their shape; tensors of onnxruntime have a `type` as well, which decides where the data alone do not. */
type Stored<Data> = { readonly data: Data; readonly type?: unknown } & (
  | { readonly shape: Shape }
  | { readonly dims: Shape }
);

/** A `Float16Array`, which not every engine has. */
export interface HalfArray extends ArrayLike<number>, ArrayBufferView {
  readonly [Symbol.toStringTag]: "Float16Array";
}

/**
 * A tensor of floats as it goes in: float32, or float16 as a `Float16Array` or as its bits in a `Uint16Array`, which is
 * widened to float32 first. `dims` is read where there is no `shape`.
 */
export type FloatTensor = Stored<Float32Array | Uint16Array | HalfArray>;

/** A tensor of int64 as it goes in, in any of the forms that JavaScript has for it. */
export type IntegerTensor = Stored<BigInt64Array | Int32Array | readonly number[]>;

type IntegerArray = Int8Array | Int16Array | Int32Array | Uint32Array | BigInt64Array | BigUint64Array;

/**
 * A mask of attention. Boolean, true or non-zero = attend: a `Uint8Array`, `Uint8ClampedArray` or `boolean[]`. Anything
 * else is added to the scores, -Infinity removing the key: floats as in {@link FloatTensor}, or integers. A `type` as
 * tensors of onnxruntime have it tells "uint8" from "bool" and "uint16" from "float16".
 */
export type MaskTensor = FloatTensor | Stored<BooleanData | IntegerArray>;

/** What every operator takes as its third argument. */
export interface OnnxOptions {
  /** Where it is computed. Default: the runtime of the free functions of the package. */
  readonly runtime?: Runtime | undefined;
}

interface Versioned {
  /** Operator set of the model; the newest version of the operator up to it counts. Default: the newest known, 27. */
  readonly opset?: number | undefined;
}

/** Attributes of Attention, versions 23, 24 and 25. */
export interface AttentionAttributes extends Versioned {
  /** 1: query i sees keys j <= i + offset, the offset being the length of the past, nonpad_kv_seqlen - Lq, or 0. Default 0. */
  readonly is_causal?: number | undefined;
  /** Heads of K and V; required with rank 3, an error with rank 4 from version 25 on. */
  readonly kv_num_heads?: number | undefined;
  /** Heads of Q; required with rank 3, an error with rank 4 from version 25 on. */
  readonly q_num_heads?: number | undefined;
  /** What qk_matmul_output holds: 0 scaled scores (default), 1 after softcap, 2 after bias and masks, 3 weights. */
  readonly qk_matmul_output_mode?: number | undefined;
  /** Factor on the scores. Default 1 / sqrt(head size of Q). */
  readonly scale?: number | undefined;
  /** Scores become softcap * tanh(score / softcap), before bias and masks. Default 0: none. */
  readonly softcap?: number | undefined;
  /** 1, 10 or 16: float32, float16, bfloat16; it is float32 in every case. 11, float64, is an error. */
  readonly softmax_precision?: number | undefined;
  /** Version 25. Keys j >= i + offset - left_window_size are seen; -1 (default) is no bound. */
  readonly left_window_size?: number | undefined;
  /** Version 25. Keys j <= i + offset + right_window_size are seen; -1 (default) is no bound. */
  readonly right_window_size?: number | undefined;
}

/** Inputs of Attention: Q, K and V of rank 4 [B, heads, L, D] or of rank 3 [B, L, heads * D]. */
export interface AttentionInputs {
  readonly Q: FloatTensor;
  readonly K: FloatTensor;
  readonly V: FloatTensor;
  /** Broadcasts to [B, heads, Lq, keys]. From version 24 on the last axis may be shorter: what is missing is masked. */
  readonly attn_mask?: MaskTensor | undefined;
  /** [B, kvHeads, past, D]: keys that come before K. */
  readonly past_key?: FloatTensor | undefined;
  /** [B, kvHeads, past, Dv]: values that come before V. */
  readonly past_value?: FloatTensor | undefined;
  /** Version 24. [B]: how many keys of each batch entry count. */
  readonly nonpad_kv_seqlen?: IntegerTensor | undefined;
}

/** Names of the outputs of Attention. */
export type AttentionOutputName = "Y" | "present_key" | "present_value" | "qk_matmul_output";

/** Options of attention. */
export interface AttentionOnnxOptions<Name extends AttentionOutputName = AttentionOutputName>
  extends OnnxOptions {
  /** Outputs wanted beside Y, which is always there. Default: present_key and present_value where a past is given. */
  readonly outputs?: readonly Name[] | undefined;
}

/** Outputs of Attention. */
export interface AttentionOutputs {
  /** The rank of Q: [B, heads, Lq, Dv] or [B, Lq, heads * Dv]. */
  Y: Tensor;
  /** [B, kvHeads, past + Lk, D]: past_key and K. */
  present_key?: Tensor;
  /** [B, kvHeads, past + Lk, Dv]: past_value and V. */
  present_value?: Tensor;
  /** [B, heads, Lq, keys]: all scores, by qk_matmul_output_mode. */
  qk_matmul_output?: Tensor;
}

/** Attributes of Softmax and LogSoftmax, version 13. */
export interface SoftmaxAttributes extends Versioned {
  /** Axis that sums to one. Default -1. */
  readonly axis?: number | undefined;
}

/** Attributes of ReduceLogSumExp, version 18. */
export interface ReduceAttributes extends Versioned {
  /** 1 (default): the reduced axes stay, of length 1. 0: they go. */
  readonly keepdims?: number | undefined;
  /** 1: no axes mean that nothing is reduced. Default 0: they mean all. */
  readonly noop_with_empty_axes?: number | undefined;
}

/** MatMul has no attributes. */
export type MatMulAttributes = Versioned;

/** Attributes of Gemm: alpha * A' B' + beta * C. */
export interface GemmAttributes extends Versioned {
  readonly alpha?: number | undefined;
  readonly beta?: number | undefined;
  /** 1: A is read as its transpose. Default 0. */
  readonly transA?: number | undefined;
  /** 1: B is read as its transpose. Default 0. */
  readonly transB?: number | undefined;
}

/** Attributes of LayerNormalization, version 17, and RMSNormalization, version 23. */
export interface NormalizationAttributes extends Versioned {
  /** First of the axes that are normalised together. Default -1. */
  readonly axis?: number | undefined;
  /** Added to the variance, or the mean of the squares. Default 1e-5. */
  readonly epsilon?: number | undefined;
  /** 1 (default), 10 or 16: float32, float16, bfloat16; it is float32 in every case. 11, float64, is an error. */
  readonly stash_type?: number | undefined;
}

/** Names of the outputs of LayerNormalization. */
export type LayerNormalizationOutputName = "Y" | "Mean" | "InvStdDev";

/** Options of layerNormalization. */
export interface LayerNormalizationOptions<
  Name extends LayerNormalizationOutputName = LayerNormalizationOutputName,
> extends OnnxOptions {
  /** Outputs wanted beside Y, which is always there. Default: none. */
  readonly outputs?: readonly Name[] | undefined;
}

/** Outputs of LayerNormalization; the statistics have length 1 on each axis that is normalised. */
export interface LayerNormalizationOutputs {
  Y: Tensor;
  Mean?: Tensor;
  /** 1 / sqrt(variance + epsilon). */
  InvStdDev?: Tensor;
}

/** Attributes of RotaryEmbedding, version 23. */
export interface RotaryAttributes extends Versioned {
  /** 1: pairs are neighbours. 0 (default): element j of the first half with j of the second. */
  readonly interleaved?: number | undefined;
  /** Required with X of rank 3. */
  readonly num_heads?: number | undefined;
  /** Leading elements of a head that turn; the others pass through. Default 0: all. */
  readonly rotary_embedding_dim?: number | undefined;
}

/** Inputs of RotaryEmbedding: X of rank 4 [B, heads, L, D] or of rank 3 [B, L, heads * D]. */
export interface RotaryInputs {
  readonly X: FloatTensor;
  /** [positions, rotary / 2] with position_ids, [B, L, rotary / 2] without. */
  readonly cos_cache: FloatTensor;
  /** As cos_cache. */
  readonly sin_cache: FloatTensor;
  /** [B, L]: the row of both caches for each token. */
  readonly position_ids?: IntegerTensor | undefined;
}

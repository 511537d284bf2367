// The free functions of attention, on the default runtime.
// What each function throws stands at Operations; here is what one throws beyond that.

import type {
  AttentionBackwardFunction,
  AttentionFunction,
  MergeAttentionFunction,
  MultiHeadAttentionFunction,
  Operations,
} from "../operations.ts";
import type {
  AttentionBackwardInputs,
  AttentionOptions,
  AttentionPart,
  MergeAttentionOptions,
} from "../types/attention.ts";
import type { TensorLike } from "../types/tensor.ts";
import { defaultRuntime } from "./default-runtime.ts";

/**
 * Scaled dot-product attention, softmax(scale * query keyᵀ + mask) value, tile by tile: the scores are never stored.
 *
 * Shapes: query [..., heads, queryLength, headDim], key [..., kvHeads, keyLength, headDim], value [..., kvHeads,
 * keyLength, valueDim]; heads must be a multiple of kvHeads (grouped-query attention); rank 2 is one head. With
 * `layout: "blhd"` length comes before heads in all of them. The leading axes of query, key and value are all those of
 * the result or all 1: one batch entry serves every other. The result is [..., heads, queryLength, valueDim]; with
 * `returnLse: true` it is `{ out, lse }`, lse [..., heads, queryLength] in either layout. A row that sees no key gives 0,
 * lse -Infinity.
 *
 * @throws {RangeError} for shapes that do not fit each other, and values of options outside their range.
 * @throws {TypeError} for queryOffset and causalAlignment at once. What every operation throws: {@link Operations}.
 * @see Vaswani et al. 2017, "Attention Is All You Need", 3.2.1; Dao et al. 2022, "FlashAttention", algorithm 1.
 * @example
 * const q = { data: new Float32Array(8 * 128 * 64), shape: [1, 8, 128, 64] };
 * const out = scaledDotProductAttention(q, q, q, { isCausal: true }); // { data: Float32Array, shape: [1, 8, 128, 64] }
 */
export const scaledDotProductAttention: AttentionFunction = ((
  query: TensorLike,
  key: TensorLike,
  value: TensorLike,
  options?: AttentionOptions,
) => defaultRuntime().scaledDotProductAttention(query, key, value, options)) as AttentionFunction;

/**
 * Gradients of {@link scaledDotProductAttention}, given its operands, options and results: weights are made again from
 * lse, tile by tile, and never stored.
 *
 * With P = exp(scores - lse), D = rowsum(dOut * out) - dLse, dP = dOut valueᵀ and dS = P * (dP - D): dValue = Pᵀ dOut,
 * dQuery = scale dS key, dKey = scale dSᵀ query, dAttnMask = dS, dSinks = -sum(exp(sink - lse) D). Each gradient has the
 * shape of its operand: operands, masks and heads that are shared have theirs summed. Rows without keys and masked keys
 * give and get exactly 0. Options must be those of the forward call, the seed of a dropout among them. out and lse may
 * also be those of a larger whole of which key and value are a part (mergeAttention).
 *
 * @throws {RangeError} for shapes that do not fit each other, and values of options outside their range.
 * @throws {TypeError} for returnDAttnMask without an additive attnMask, and returnDSinks without sinks. What every
 * operation throws: {@link Operations}.
 * @see Dao et al. 2022, "FlashAttention", algorithm 4 and appendix B.2.
 * @example
 * const { out, lse } = scaledDotProductAttention(query, key, value, { isCausal: true, returnLse: true });
 * const { dQuery, dKey, dValue } = scaledDotProductAttentionBackward({ dOut, query, key, value, out, lse, isCausal: true });
 */
export const scaledDotProductAttentionBackward: AttentionBackwardFunction = ((
  inputs: AttentionBackwardInputs,
) => defaultRuntime().scaledDotProductAttentionBackward(inputs)) as AttentionBackwardFunction;

/**
 * Merges partial results of attention over disjoint keys into the result over all of them, in the order of the parts.
 *
 * Each part is what returnLse gives: out [..., heads, queryLength, valueDim] (by layout), lse [..., heads, queryLength].
 * With max the largest lse of a row: out = sum(e^(lse - max) out) / sum(e^(lse - max)), lse = max + log of that sum,
 * computed in float64. A part without keys (lse -Infinity) changes nothing; a sink must be in one part only.
 *
 * @throws {TypeError} where parts is empty or a part is no { out, lse }.
 * @throws {RangeError} for shapes that differ or do not belong together.
 * @see Juravsky et al. 2024, "Hydragen", 3.2.
 * @example
 * const some = scaledDotProductAttention(query, keys1, values1, { returnLse: true });
 * const others = scaledDotProductAttention(query, keys2, values2, { returnLse: true });
 * const { out, lse } = mergeAttention([some, others]);
 */
export const mergeAttention: MergeAttentionFunction = ((
  parts: readonly AttentionPart[],
  options?: MergeAttentionOptions,
) => defaultRuntime().mergeAttention(parts, options)) as MergeAttentionFunction;

/**
 * Multi-head attention with its projections: out = concat(heads) Wₒᵀ + bₒ, head h being attention of query W_qᵀ + b_q,
 * key W_kᵀ + b_k and value W_vᵀ + b_v, cut into heads of headDim along the last axis. Weights are those of
 * torch.nn.MultiheadAttention, [outputs, inputs], or with `weightLayout: "io"` [inputs, outputs].
 *
 * Called as (x, options) for self-attention, or (query, key, value, options), where a key left out is the query and a
 * value left out the key. Shapes: query [..., queryLength, E], key and value [..., keyLength, E'], result [...,
 * queryLength, outputs]; `out` may be query, key or value. With numKvHeads < numHeads consecutive heads share a
 * key/value head. headDim follows from the weights. Resident where operands, weights and biases are.
 *
 * A boolean attnMask is that of {@link scaledDotProductAttention}: true = attend. torch.nn.MultiheadAttention has it the
 * other way round: negate its attn_mask and key_padding_mask. There is no needWeights: weights are never stored.
 *
 * @throws {RangeError} for shapes that do not fit each other or the heads.
 * @throws {TypeError} for weights that are missing or given twice, and for rotary with a key of its own. What every
 * operation throws: {@link Operations}.
 * @see Vaswani et al. 2017, 3.2.2; Ainslie et al. 2023, "GQA"; torch.nn.functional.multi_head_attention_forward.
 * @example
 * const x = { data: new Float32Array(10 * 64), shape: [10, 64] };
 * const inProjWeight = { data: new Float32Array(192 * 64), shape: [192, 64] };
 * const outProjWeight = { data: new Float32Array(64 * 64), shape: [64, 64] };
 * multiHeadAttention(x, { numHeads: 8, inProjWeight, outProjWeight, isCausal: true }).shape; // [10, 64]
 */
export const multiHeadAttention: MultiHeadAttentionFunction = ((
  ...operands: Parameters<Operations["multiHeadAttention"]>
) => defaultRuntime().multiHeadAttention(...operands)) as MultiHeadAttentionFunction;

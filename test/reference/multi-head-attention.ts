import { attention, type RefAttentionOptions } from "./attention.ts";
import { matmul } from "./matmul.ts";
import { type RefRotaryOptions, rotaryEmbedding } from "./rotary.ts";
import { float64, type RefTensor, type Rounding } from "./rounding.ts";

/** y = x Wᵀ + b, W [outputs, inputs]. */
export interface RefLinear {
  readonly weight: RefTensor;
  readonly bias?: RefTensor | undefined;
}

export interface RefMultiHeadOptions extends Omit<RefAttentionOptions, "layout"> {
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly qProj: RefLinear;
  readonly kProj: RefLinear;
  readonly vProj: RefLinear;
  readonly outProj: RefLinear;
  readonly rotary?: (RefRotaryOptions & { readonly cos: RefTensor; readonly sin: RefTensor }) | undefined;
}

/**
 * Multi-head attention: projections of query [.., lq, E], key and value [.., lk, E'], cut into heads along the last axis,
 * attention of each head, and the projection of all heads side by side.
 */
export function multiHeadAttention(
  query: RefTensor,
  key: RefTensor,
  value: RefTensor,
  options: RefMultiHeadOptions,
  round: Rounding = float64,
): RefTensor {
  const { numHeads, numKvHeads, qProj, kProj, vProj, outProj, rotary } = options;
  const turned = (heads: RefTensor): RefTensor =>
    rotary ? rotaryEmbedding(heads, rotary.cos, rotary.sin, { ...rotary, layout: "blhd" }, round) : heads;
  const q = turned(splitHeads(linear(query, qProj, round), numHeads));
  const k = turned(splitHeads(linear(key, kProj, round), numKvHeads));
  const v = splitHeads(linear(value, vProj, round), numKvHeads);
  const { out } = attention(q, k, v, { ...options, layout: "blhd" }, round);
  return linear(joinHeads(out), outProj, round);
}

export function linear(x: RefTensor, { weight, bias }: RefLinear, round: Rounding = float64): RefTensor {
  return matmul(x, weight, { transposeB: true, ...(bias && { c: bias }) }, round);
}

/** [.., length, heads * width] as [.., length, heads, width]. */
function splitHeads({ data, shape }: RefTensor, heads: number): RefTensor {
  return { data, shape: [...shape.slice(0, -1), heads, (shape.at(-1) as number) / heads] };
}

function joinHeads({ data, shape }: RefTensor): RefTensor {
  return { data, shape: [...shape.slice(0, -2), (shape.at(-2) as number) * (shape.at(-1) as number)] };
}

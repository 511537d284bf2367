// What attention, its gradients and mergeAttention take and give.
import type { Layout, Shape, Tensor, TensorLike } from "./tensor.ts";

/** Boolean mask values: true or non-zero means "attend". */
export type BooleanData = Uint8Array | Uint8ClampedArray | readonly boolean[];

/**
 * An attention mask, broadcast right-aligned to `[batch, heads, queryLength, keyLength]` by its
 * explicit shape. Boolean data: true = attend. `Float32Array`: added to the scaled scores, with
 * -Infinity removing the key.
 */
export type MaskLike =
  | TensorLike
  | { readonly data: BooleanData; readonly shape: Shape }
  | { readonly data: BooleanData; readonly dims: Shape };

/** Where the query block stands against the keys when their lengths differ. */
export type CausalAlignment = "topLeft" | "bottomRight";

/** Options of {@link Runtime.scaledDotProductAttention}; see Semantics in the README. */
export interface AttentionOptions {
  /** Keys that take part (boolean) or a bias on the scores (float32). */
  readonly attnMask?: MaskLike | undefined;
  /** Query i sees keys j <= i + queryOffset. Composes with every other option. Default false. */
  readonly isCausal?: boolean | undefined;
  /** Factor on the scores. Default 1 / sqrt(headDim of the query). 0 and negatives are values. */
  readonly scale?: number | undefined;
  /** Position of query 0 among the keys, one number or one per batch. Not clamped. */
  readonly queryOffset?: number | Int32Array | undefined;
  /** "topLeft" (default): queryOffset 0. "bottomRight": keyLength - queryLength, per batch under kvLengths. */
  readonly causalAlignment?: CausalAlignment | undefined;
  /** Number of valid keys of each batch entry; keys from there on are never read. */
  readonly kvLengths?: Int32Array | undefined;
  /**
   * [left, right]: query at position p sees keys p - left <= j <= p + right, both inclusive; -1 or Infinity is no bound.
   * Causal is right = 0. The position is that of queryOffset and causalAlignment, with or without isCausal.
   */
  readonly windowSize?: readonly [left: number, right: number] | undefined;
  /** Scores become softcap * tanh(score / softcap), before bias and mask. Default 0: none. */
  readonly softcap?: number | undefined;
  /** ALiBi: adds -slope * |position - j| to the scores. Shape [heads] or [batch, heads]. */
  readonly alibiSlopes?: TensorLike | undefined;
  /** A logit for each head, shape [heads], that joins the denominator only and is not scaled; lse includes it. */
  readonly sinks?: TensorLike | undefined;
  /**
   * Probability that a weight is dropped; the others are multiplied by 1 / (1 - dropoutP). Default 0. The weights that
   * are dropped follow from `seed`, batch entry, head, query and key, and from nothing else. lse is that without dropout.
   */
  readonly dropoutP?: number | undefined;
  /** Of the dropout: an integer from 0 to 2 ** 53 - 1. Required where dropoutP > 0; the backward takes the same. */
  readonly seed?: number | undefined;
  /** "bhld" (default) [batch, heads, length, headDim]; "blhd" [batch, length, heads, headDim]. */
  readonly layout?: Layout | undefined;
  /** Return the log-sum-exp of each score row beside the output. Default false. */
  readonly returnLse?: boolean | undefined;
  /** Write the output here instead of allocating it. */
  readonly out?: TensorLike | undefined;
}

/** Output and row-wise log-sum-exp (natural logarithm), shape [..., heads, queryLength]. */
export interface AttentionWithLse<Out = Tensor, Lse = Out> {
  out: Out;
  lse: Lse;
}

/** What {@link Runtime.scaledDotProductAttentionBackward} takes: operands, results and options of the forward call. */
export interface AttentionBackwardInputs extends Omit<AttentionOptions, "returnLse" | "out"> {
  /** Gradient of the output, of its shape. */
  readonly dOut: TensorLike;
  /** Gradient of the log-sum-exp, where that was used too. */
  readonly dLse?: TensorLike | undefined;
  readonly query: TensorLike;
  readonly key: TensorLike;
  readonly value: TensorLike;
  /** The output of the forward call. */
  readonly out: TensorLike;
  /** The log-sum-exp of the forward call (`returnLse: true`). */
  readonly lse: TensorLike;
  /** True as in the forward call, whose options may go in as they are: without it there is no lse. */
  readonly returnLse?: boolean | undefined;
  /** Return the gradient of an additive attnMask, of its shape. Default false. */
  readonly returnDAttnMask?: boolean | undefined;
  /** Return the gradient of the sinks. Default false. */
  readonly returnDSinks?: boolean | undefined;
}

/** Gradients, each of the shape of what it is the gradient of. */
export interface AttentionGradients<T = Tensor> {
  dQuery: T;
  dKey: T;
  dValue: T;
  /** With returnDAttnMask. */
  dAttnMask?: T;
  /** With returnDSinks. */
  dSinks?: T;
}

/** One part of attention over some of the keys, as returnLse gives it. */
export interface AttentionPart {
  readonly out: TensorLike;
  readonly lse: TensorLike;
}

/** Options of mergeAttention. */
export interface MergeAttentionOptions {
  /** Layout of the outputs; lse is [..., heads, queryLength] in both. Default "bhld". */
  readonly layout?: Layout | undefined;
}

// The options of keyValueCache, and of attention against what it holds.
import type { MaskLike } from "./attention.ts";
import type { Layout, TensorLike } from "./tensor.ts";

/** Options of keyValueCache. */
export interface KeyValueCacheOptions {
  /** Sequences side by side, all of one length. Default 1. */
  readonly batch?: number | undefined;
  /** Heads of key and value. */
  readonly numKvHeads: number;
  /** Width of a key. */
  readonly headDim: number;
  /** Width of a value. Default headDim. */
  readonly valueDim?: number | undefined;
  /** Tokens to make room for once and for all. Default: grows as needed, by doubling. */
  readonly capacity?: number | undefined;
  /**
   * [left, 0]: a query at position p sees keys p - left <= j <= p, left + 1 of them, and older ones are overwritten: a
   * `sliding_window` of n tokens is [n - 1, 0]. The meaning is that of windowSize in attention. Default: no window.
   */
  readonly windowSize?: readonly [left: number, right: number] | undefined;
  /** Storage: "float16" halves the bytes that are held and read; rounded to nearest even. Default "float32". */
  readonly dtype?: "float32" | "float16" | undefined;
  /** Layout of key, value, query and output. Default "bhld". */
  readonly layout?: Layout | undefined;
}

/** Options of {@link KeyValueCache.attend}. */
export interface CacheAttentionOptions {
  /** A query sees keys up to its own position. Default true. */
  readonly isCausal?: boolean | undefined;
  /**
   * As in attention, over the keys that the queries may see: all `length` tokens, with the windowSize [left, 0] of the
   * cache the last min(length, left + queryLength).
   */
  readonly attnMask?: MaskLike | undefined;
  /** Factor on the scores. Default 1 / sqrt(headDim). */
  readonly scale?: number | undefined;
  /** As in attention; within the window of the cache, if that has one. */
  readonly windowSize?: readonly [left: number, right: number] | undefined;
  /** Scores become softcap * tanh(score / softcap). Default 0: none. */
  readonly softcap?: number | undefined;
  /** ALiBi by absolute positions. Shape [heads] or [batch, heads]. */
  readonly alibiSlopes?: TensorLike | undefined;
  /** A logit for each head, shape [heads], that joins the denominator only. */
  readonly sinks?: TensorLike | undefined;
  /** Return the log-sum-exp [batch, heads, queryLength] beside the output. Default false. */
  readonly returnLse?: boolean | undefined;
  /** Write the output here instead of allocating it. */
  readonly out?: TensorLike | undefined;
}

// The options of keyValueCache, and of attention against what it holds.
import type { AttentionOptions } from "./attention.ts";
import type { Layout } from "./tensor.ts";

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

type Kept = "scale" | "windowSize" | "softcap" | "alibiSlopes" | "sinks" | "returnLse" | "out";

/**
 * Options of {@link KeyValueCache.attend}: those of attention, by absolute positions, and within the window of the cache
 * if that has one.
 */
export interface CacheAttentionOptions extends Pick<AttentionOptions, Kept> {
  /** A query sees keys up to its own position. Default true. */
  readonly isCausal?: AttentionOptions["isCausal"];
  /**
   * As in attention, over the keys that the queries may see: all `length` tokens, with the windowSize [left, 0] of the
   * cache the last min(length, left + queryLength).
   */
  readonly attnMask?: AttentionOptions["attnMask"];
}

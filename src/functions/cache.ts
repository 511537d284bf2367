// The free function that makes a cache, on the default runtime.
import type { KeyValueCache } from "../key-value-cache.ts";
import type { KeyValueCacheOptions } from "../types/cache.ts";
import { defaultRuntime } from "./default-runtime.ts";

/**
 * A cache of keys and values in Wasm memory, for decoding: `append` copies the new tokens in, `attend` is attention of the
 * last positions against all.
 *
 * Shapes by `layout`: key [batch, numKvHeads, newTokens, headDim], value [.., valueDim], query [batch, heads, queryLength,
 * headDim], result [batch, heads, queryLength, valueDim]; "blhd" has length before heads. With `capacity` the memory is
 * taken at once and more tokens are an error; without, it grows by doubling. With `windowSize: [left, 0]` it is a ring that
 * holds what the newest queries see; positions stay absolute. A row has the bits that scaledDotProductAttention over
 * all tokens gives it, with dtype "float16" over keys and values rounded to that.
 *
 * @throws {RangeError} for sizes that are no positive integers, a windowSize whose right side is not 0 and a capacity
 * below left + 1, and where memory is exhausted.
 * @throws {TypeError} for an unknown option, dtype or layout.
 * @see Shazeer 2019, "Fast Transformer Decoding", 2.4; Jiang et al. 2023, "Mistral 7B", 2, for the ring.
 * @example
 * using cache = keyValueCache({ numKvHeads: 8, headDim: 64, windowSize: [4095, 0], dtype: "float16" });
 * cache.append(key, value); // [1, 8, 1, 64]
 * const out = cache.attend(query); // [1, 32, 1, 64]
 */
export const keyValueCache = (options: KeyValueCacheOptions): KeyValueCache =>
  defaultRuntime().keyValueCache(options);

// Keys and values as a cache holds them: float32 or float16, in a ring.
//
// Storage [batch, numKvHeads, capacity, width], contiguous, for keys and for values: the row of position j is
// j % capacity. Positions are absolute, so that masks, windows and ALiBi know nothing of the ring.
//   cacheAppend writes the rows of new positions. `attention` reads rows through cachedRows where params.staging is not
//   0: where they stand if they are float32 and do not wrap, else copied into staging, float16 widened.
// Reads up to READ_SLACK past rows; writes rows exactly. Staging: cacheStagingBytes(..), 16-byte aligned.
// Edges: rows = 0 does nothing; NaN and Infinity are kept, and found (SPECIAL). At most `capacity` rows at once.
// Accuracy: float32 is kept, float16 rounded once (float16.ts). The blocks of keys are those of attention.ts, so a row
//   has the bits of attention over the same keys side by side (test/key-value-cache.test.ts).
import { BLOCK_K, STAGED_ROWS } from "./config";
import { areFew } from "./few-queries";
import { REBIAS, SPECIAL, narrow, widen, widenFinite } from "./float16";
import { AttentionParams, FLOAT16_FINITE, FLOAT32 } from "./params";

/** An offset of elements, shifted left by this, is one of bytes. */
@inline
export function kvShift(kvType: i32): usize {
  return kvType == FLOAT32 ? 2 : 1;
}

/** Bytes of staging that `attention` needs: a block of keys and one of values, or for few queries a part of one. */
export function cacheStagingBytes(lq: i32, lk: i32, d: i32, dv: i32): f64 {
  const floats = areFew(lq, lk, d) ? <f64>STAGED_ROWS * max(d, dv) : <f64>BLOCK_K * (<f64>d + dv);
  return floats * 4 + 32; // widen writes whole vectors
}

/**
 * Rows at float32 `from`, by its strides, to positions [position, position + rows) of heads [begin, end) of all.
 * Returns how many became subnormal halves, or SPECIAL if one became Infinity or NaN.
 */
export function cacheAppend(
  kvType: i32, numKvHeads: i32, capacity: i32, width: i32, to: usize, position: i32, rows: i32,
  from: usize, fromBatch: i32, fromHead: i32, fromRow: i32, begin: i32, end: i32,
): i32 {
  assert(0 <= position && rows <= capacity, "cacheAppend: rows");
  const shift = kvShift(kvType);
  let subnormals = 0;
  for (let head = begin; head < end; ++head) {
    const b = head / numKvHeads, h = head % numKvHeads;
    let source = from + ((<usize>b * fromBatch + <usize>h * fromHead) << 2);
    const storage = to + ((<usize>head * capacity * width) << shift);
    for (let i = 0; i < rows; ++i, source += <usize>fromRow << 2) {
      const target = storage + ((<usize>((position + i) % capacity) * width) << shift);
      if (kvType == FLOAT32) {
        memory.copy(target, source, <usize>width << 2);
        continue;
      }
      const found = narrow(width, source, target);
      subnormals = found == SPECIAL || subnormals == SPECIAL ? SPECIAL : subnormals + found;
    }
  }
  return subnormals;
}

/** Where position j of one head at `storage` stands. */
@inline
export function cachedRow(params: AttentionParams, storage: usize, width: i32, j: i32): usize {
  return storage + ((<usize>(j % params.kvCapacity) * width) << kvShift(params.kvType));
}

/** True if positions [from, from + count) do not wrap. */
@inline
export function isSideBySide(params: AttentionParams, from: i32, count: i32): bool {
  return from % params.kvCapacity + count <= params.kvCapacity;
}

@inline
function widenRows(kvType: i32, n: i32, raw: bool, from: usize, to: usize): void {
  if (kvType == FLOAT16_FINITE) widenFinite(n, raw ? 1 : REBIAS, from, to);
  else widen(n, from, to);
}

/** Positions [from, from + count) of one head at `storage`, side by side as float32; float16 2^-112 times if `raw`. */
export function cachedRows(
  params: AttentionParams, storage: usize, width: i32, from: i32, count: i32, raw: bool, staging: usize,
): usize {
  const unwrapped = min(count, params.kvCapacity - from % params.kvCapacity);
  const first = cachedRow(params, storage, width, from);
  const wrapped = staging + ((<usize>unwrapped * width) << 2);
  assert(count <= params.kvCapacity, "attention: more keys than the ring holds");
  if (params.kvType != FLOAT32) {
    widenRows(params.kvType, unwrapped * width, raw, first, staging);
    if (unwrapped < count) widenRows(params.kvType, (count - unwrapped) * width, raw, storage, wrapped);
    return staging;
  }
  if (unwrapped == count) return first;
  memory.copy(staging, first, (<usize>unwrapped * width) << 2);
  memory.copy(wrapped, storage, (<usize>(count - unwrapped) * width) << 2);
  return staging;
}

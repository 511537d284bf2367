// The online softmax of decode.ts over the scores of one row, keys side by side, block of keys by block of keys.
//
// Bit for bit what online-softmax.ts makes of a lane: the same maxima, weights and sums, in the same order over keys.
// Statistics of a row: ROW_STATS_BYTES at `stats`, 4-byte aligned. Scores and weights: `keys` floats, 16-byte aligned,
//   with room for a multiple of 8. Bias, and the tile of dropout.ts: one lane, 32 bytes from key to key.
// Reads and writes `keys` floats (softmaxRow a multiple of 8: weights of 0 behind the last) and the statistics.
// Edges: as online-softmax.ts; a removed key has weight -0 (GUARDED in microkernel.ts).
// Accuracy: that of attention, whose bits these are (test/decode.test.ts).
import { NR } from "./config";
import { SMALLEST_NORMAL, SMALLEST_WEIGHT, expNonPositive, expSubMaxPair } from "./exp";
import { maxPlusLog } from "./log";
import { fma, hmax } from "./simd";

@inline export const ROW_STATS_BYTES: usize = 16;
// The running maximum of the scores stands first, then:
@inline const SUM_AT: usize = 4; // running sum of exp(score - maximum)
@inline const FACTOR_AT: usize = 8; // factor for what was summed before the current block, in the end for all

/** No key so far. */
@inline
export function startRowStats(stats: usize): void {
  f32.store(stats, -Infinity);
  f32.store(stats + SUM_AT, 0);
}

/** What the sums over values so far are multiplied with: between blocks, and, after closeRowSum, at the end. */
@inline
export function rowFactor(stats: usize): v128 {
  return v128.load32_splat(stats + FACTOR_AT);
}

/** lse of the row: -Infinity + log 0 = -Infinity where there is no key and no sink. */
@inline
export function rowLse(stats: usize): f32 {
  return maxPlusLog(f32.load(stats), f32.load(stats + SUM_AT));
}

/** Multiplies weights by one lane of the tile of dropout.ts. */
export function dropRow(keys: i32, weights: usize, tile: usize): void {
  for (let j = 0; j < keys; ++j, weights += 4, tile += 32) f32.store(weights, f32.load(weights) * f32.load(tile));
}

/** No key of the block: weights -0 (see GUARDED in microkernel.ts), statistics as they are. */
export function removeRow(keys: i32, scores: usize, stats: usize): void {
  for (let j = 0; j < keys; ++j) f32.store(scores + (<usize>j << 2), -0.0);
  f32.store(stats + FACTOR_AT, 1);
}

/** Adds one lane of the bias tile; a removed key becomes -Infinity by selection, whatever its score. */
export function maskRowScores(keys: i32, scores: usize, bias: usize): void {
  for (let j = 0; j < keys; ++j, scores += 4, bias += 32) {
    const value = f32.load(bias);
    f32.store(scores, value == -Infinity ? value : f32.load(scores) + value);
  }
}

/** Sets the sign of the weights whose bias is -Infinity. */
export function markRowRemoved(keys: i32, weights: usize, bias: usize): void {
  for (let j = 0; j < keys; ++j, weights += 4, bias += 32) {
    if (f32.load(bias) == -Infinity) f32.store(weights, -0.0);
  }
}

/** Scores to weights by the running maximum; the sum runs over the keys in order. */
export function softmaxRow(keys: i32, scores: usize, stats: usize): void {
  const old = f32.load(stats), none = f32x4.splat(-Infinity);
  for (let j = keys; j & 7; ++j) f32.store(scores + (<usize>j << 2), -Infinity); // whole vectors: weights of 0
  let m0 = f32x4.splat(old), m1 = none;
  for (let j = 0; j < keys; j += NR) {
    const at = scores + (<usize>j << 2);
    m0 = f32x4.pmax(m0, v128.load(at));
    m1 = f32x4.pmax(m1, v128.load(at, 16));
  }
  const rowMax = hmax(f32x4.pmax(m0, m1));
  f32.store(stats, rowMax);
  const m = f32x4.splat(rowMax == -Infinity ? 0 : rowMax); // so that -Infinity - max is -Infinity and never NaN
  for (let j = 0; j < keys; j += NR) {
    const at = scores + (<usize>j << 2);
    expSubMaxPair(at, at, m, m, SMALLEST_WEIGHT, true);
  }
  let sum: f32 = 0;
  for (let j = 0; j < keys; ++j) sum += f32.load(scores + (<usize>j << 2));
  const rescale = expNonPositive(f32x4.sub(f32x4.splat(old), m), SMALLEST_WEIGHT);
  const total = fma(f32x4.splat(f32.load(stats + SUM_AT)), rescale, f32x4.splat(sum));
  f32.store(stats + SUM_AT, f32x4.extract_lane(total, 0));
  f32.store(stats + FACTOR_AT, f32x4.extract_lane(rescale, 0));
}

/** Takes the sink (-Infinity: none) into maximum and sum; the factor becomes what finishes the row. */
export function closeRowSum(stats: usize, sink: f32): void {
  const rowMax = f32.load(stats), rowSum = f32.load(stats + SUM_AT);
  let next = rowMax, sum = rowSum, kept: f32 = 1;
  if (sink != -Infinity) {
    next = rowMax < sink ? sink : rowMax;
    const m: f32 = next == -Infinity ? 0 : next; // no key and a sink of NaN
    const rest = expNonPositive(f32x4.splat(rowMax - m), SMALLEST_NORMAL);
    const term = expNonPositive(f32x4.splat(sink - m), SMALLEST_NORMAL);
    sum = f32x4.extract_lane(fma(f32x4.splat(rowSum), rest, term), 0);
    kept = f32x4.extract_lane(rest, 0);
  }
  f32.store(stats, next);
  f32.store(stats + SUM_AT, sum);
  f32.store(stats + FACTOR_AT, kept * (rowSum == 0 ? 0 : 1 / sum));
}

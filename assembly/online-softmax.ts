// The online softmax of attention.ts over a tile of scores [key][8 queries], block of keys by block of keys.
//
// Statistics of a panel of 8 queries: STATS_BYTES at `stats`, 16-byte aligned. Lanes are queries, so no step is
// horizontal. decode.ts does the same for one row at a time, lanes being keys; the two must agree bit for bit.
// Reads and writes `keys` rows of 32 bytes of tile and bias (mask.ts says what bias holds), and the statistics.
// Edges: -Infinity removes a key, whatever its score; a lane without a key has maximum -Infinity and sum 0; NaN in a
//   score makes its lane's sum NaN.
import { SMALLEST_NORMAL, SMALLEST_WEIGHT, expNonPositive, expSubMaxPair } from "./exp";
import { fma } from "./simd";

@inline export const STATS_BYTES: usize = 192; // by the offsets that follow: five of 8 lanes, one i32
@inline export const ROW_MAX: usize = 0; // running maximum of the scores
@inline export const ROW_SUM: usize = 32; // running sum of exp(score - maximum)
@inline export const RESCALE_BY: usize = 64; // factor for what was summed before the current block
@inline export const NEXT_MAX: usize = 96; // the maximum with the current block taken in
@inline export const UNUSED_MAX: usize = 128; // maxima of scores that have yet to be masked
@inline export const STARTED: usize = 160; // 1 once out^T holds something

/** No key so far. */
export function startStats(stats: usize): void {
  const none = f32x4.splat(-Infinity), zero = f32x4.splat(0);
  v128.store(stats + ROW_MAX, none);
  v128.store(stats + ROW_MAX, none, 16);
  v128.store(stats + ROW_SUM, zero);
  v128.store(stats + ROW_SUM, zero, 16);
  store<i32>(stats + STARTED, 0);
}

/** Takes the scores of a tile into NEXT_MAX. */
export function takeMaxima(keys: i32, tile: usize, stats: usize): void {
  let m0 = v128.load(stats + NEXT_MAX), m1 = v128.load(stats + NEXT_MAX, 16);
  for (let k = 0; k < keys; ++k, tile += 32) {
    m0 = f32x4.pmax(m0, v128.load(tile));
    m1 = f32x4.pmax(m1, v128.load(tile, 16));
  }
  v128.store(stats + NEXT_MAX, m0);
  v128.store(stats + NEXT_MAX, m1, 16);
}

/** Adds the bias, takes in the maxima. A removed key becomes -Infinity by selection, so NaN behind a mask is gone. */
export function maskScores(keys: i32, tile: usize, bias: usize, stats: usize): void {
  const removed = f32x4.splat(-Infinity);
  for (let at: usize = 0; at < <usize>keys << 5; at += 16) {
    const b = v128.load(bias + at);
    v128.store(tile + at, v128.bitselect(removed, f32x4.add(v128.load(tile + at), b), f32x4.eq(b, removed)));
  }
  takeMaxima(keys, tile, stats);
}

/** -Infinity (no key so far) as 0, so that -Infinity - max is -Infinity and never NaN. */
@inline
function finiteMax(m: v128): v128 {
  return v128.andnot(m, f32x4.eq(m, f32x4.splat(-Infinity)));
}

/** Scores to weights in place, by the running maximum of each lane. NaN makes its lane's sum NaN, and so the row. */
export function softmaxTile(keys: i32, tile: usize, stats: usize): void {
  const old0 = v128.load(stats + ROW_MAX), old1 = v128.load(stats + ROW_MAX, 16);
  const next0 = v128.load(stats + NEXT_MAX), next1 = v128.load(stats + NEXT_MAX, 16);
  const m0 = finiteMax(next0), m1 = finiteMax(next1);
  let s0 = f32x4.splat(0), s1 = s0;
  for (let k = 0; k < keys; ++k, tile += 32) {
    expSubMaxPair(tile, tile, m0, m1, SMALLEST_WEIGHT, true);
    s0 = f32x4.add(s0, v128.load(tile));
    s1 = f32x4.add(s1, v128.load(tile, 16));
  }
  const r0 = expNonPositive(f32x4.sub(old0, m0), SMALLEST_WEIGHT);
  const r1 = expNonPositive(f32x4.sub(old1, m1), SMALLEST_WEIGHT);
  v128.store(stats + ROW_MAX, next0);
  v128.store(stats + ROW_MAX, next1, 16);
  v128.store(stats + ROW_SUM, fma(v128.load(stats + ROW_SUM), r0, s0));
  v128.store(stats + ROW_SUM, fma(v128.load(stats + ROW_SUM, 16), r1, s1), 16);
  v128.store(stats + RESCALE_BY, r0);
  v128.store(stats + RESCALE_BY, r1, 16);
}

/** Makes the weights of removed keys -0 (see GUARDED in microkernel.ts). */
export function markRemoved(keys: i32, weights: usize, bias: usize): void {
  for (const end = weights + (<usize>keys << 5); weights < end; weights += 16, bias += 16) {
    const removed = f32x4.eq(v128.load(bias), f32x4.splat(-Infinity));
    v128.store(weights, v128.or(v128.load(weights), v128.and(f32x4.splat(-0.0), removed)));
  }
}

/** Takes the sink (-Infinity: none) into maximum and sum, and leaves in RESCALE_BY the factor that finishes out^T. */
export function closeSums(stats: usize, sink: f32): void {
  for (let half: usize = 0; half < 32; half += 16) {
    const at = stats + half;
    const rowMax = v128.load(at + ROW_MAX), rowSum = v128.load(at + ROW_SUM);
    let next = rowMax, sum = rowSum, kept = f32x4.splat(1);
    if (sink != -Infinity) { // without one they stand
      next = f32x4.pmax(rowMax, f32x4.splat(sink));
      const m = finiteMax(next);
      kept = expNonPositive(f32x4.sub(rowMax, m), SMALLEST_NORMAL);
      sum = fma(rowSum, kept, expNonPositive(f32x4.sub(f32x4.splat(sink), m), SMALLEST_NORMAL));
    }
    const dead = f32x4.eq(rowSum, f32x4.splat(0)); // a row without keys
    const inverse = v128.andnot(f32x4.div(f32x4.splat(1), sum), dead);
    v128.store(at + ROW_MAX, next);
    v128.store(at + ROW_SUM, sum);
    v128.store(at + RESCALE_BY, f32x4.mul(kept, inverse));
  }
}

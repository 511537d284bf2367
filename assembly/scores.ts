// Scores of one panel of 8 queries against a run of keys, and the weights that the online softmax makes of them: the
// part that attention.ts and attention-backward.ts share, so that both see the same bits.
//
//   tile[key][8] = scale * (k . q), capped softly where params.softcap > 0, + bias, and then exp(score - max so far).
// Keys stand at k + key * rowK bytes, d floats each. `panel` is 16-byte aligned: the statistics of online-softmax.ts
//   and, STATS_BYTES behind it, d rows of scale * Q^T, 32 bytes each (packRows). `tile` and `bias` hold 32 bytes a key.
// Reads the keys exactly, and the mask as mask.ts does; writes statistics, tile and bias. No other scratch.
// Edges: those of online-softmax.ts and mask.ts. Lanes past `count` (past the last row) hold what means nothing.
// Accuracy: part of that of attention (test/attention.test.ts).
import { SCORES } from "./epilogue";
import { EMPTY, FULL, firstMixed, maskTile } from "./mask";
import { ROWS, panel } from "./microkernel";
import { NEXT_MAX, ROW_MAX, STATS_BYTES, UNUSED_MAX, maskScores, softmaxTile, takeMaxima } from "./online-softmax";
import { AttentionParams } from "./params";
import { capScores } from "./softcap";

/**
 * tile[key][8] = weights of keys [begin, end) for one panel, its statistics (at `panel`, scale * Q^T behind them)
 * brought up to date. Returns the first key from which on some may be removed, as `bias` then says; -1 where all are.
 */
export function weighKeys(
  params: AttentionParams, k: usize, rowK: usize, mask: usize, slope: f32, position: i32, count: i32,
  begin: i32, end: i32, panel: usize, tile: usize, bias: usize,
): i32 {
  const mixed = firstMixed(params, slope, position, count, begin, end);
  const visible = mixed == end ? FULL : maskTile(params, mask, slope, position, count, mixed, end, bias);
  if (visible == EMPTY && mixed == begin) return -1;
  const whole = visible == FULL ? end : mixed;
  scoreBlock(params, k, rowK, begin, whole, end, panel, tile);
  if (whole < end) maskScores(end - whole, tile + (<usize>(whole - begin) << 5), bias, panel);
  softmaxTile(end - begin, tile, panel);
  return whole;
}

/**
 * tile[key][8] = capped K (scale Q)^T for keys [begin, end). NEXT_MAX takes in the keys before `mixed`: the others have
 * yet to be masked.
 */
function scoreBlock(
  params: AttentionParams, k: usize, rowK: usize, begin: i32, mixed: i32, end: i32, stats: usize, tile: usize,
): void {
  v128.store(stats + NEXT_MAX, v128.load(stats + ROW_MAX));
  v128.store(stats + NEXT_MAX, v128.load(stats + ROW_MAX, 16), 16);
  const capped = params.softcap > 0;
  const whole = mixed - begin, mixedTile = tile + (<usize>whole << 5);
  const qT = stats + STATS_BYTES;
  const wholeMaxima = stats + (capped ? UNUSED_MAX : NEXT_MAX);
  if (whole > 0) scores(whole, params.d, k + <usize>begin * rowK, rowK, qT, tile, wholeMaxima);
  if (mixed < end) scores(end - mixed, params.d, k + <usize>mixed * rowK, rowK, qT, mixedTile, stats + UNUSED_MAX);
  if (!capped) return;
  capScores(params.softcap, tile, <usize>(end - begin) << 5);
  takeMaxima(whole, tile, stats);
}

/** tile[key][8] = K (scale Q)^T, and the maxima with these scores taken in. */
function scores(keys: i32, d: i32, k: usize, rowK: usize, qT: usize, tile: usize, maxima: usize): void {
  const none = f32x4.splat(0);
  panel(ROWS, SCORES, keys, d, k, rowK, 4, qT, 32, tile, 32, 8, none, none, false, maxima);
}

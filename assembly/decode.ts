// Attention for few queries (few-queries.ts), as in decoding: bound by reading K and V, each of which is read once.
//
// The result of attention.ts, bit for bit: every row takes its scores, maxima, sums and products in the same order.
// Rows are the queries of all heads that share one key/value head: row r is head hKv * group + r / lq, query r % lq.
// Scores are kept [row][key]: lanes are keys, K is transposed in registers, V is added by rows (few-rows.ts).
// Work range [begin, end): items b * numKvHeads + hKv.
// K and V are read where they stand. So are those of a cache if float32 and side by side, or finite float16 and seen by
//   HALF_ROWS rows or fewer (half-rows.ts: query and weights, in scratch, are then 2^112 times larger); else they come
//   by STAGED_ROWS through params.staging, float16 widened.
// Shapes, reads, writes, edges, accuracy: as attention.ts. Scratch: decodeScratchBytes(rows, d, dv), and for a cache
//   cacheStagingBytes(..) at params.staging, both 16-byte aligned.
import { cachedRow, cachedRows, isSideBySide, kvShift } from "./cache";
import { BLOCK_K, HALF_ROWS, STAGED_ROWS } from "./config";
import { dropTile } from "./dropout";
import { addRows, dotRows, zeroRows } from "./few-rows";
import { REBIAS } from "./float16";
import { ADD_ROWS, DOT_ROWS, addHalfRows, dotHalfRows } from "./half-rows";
import { EMPTY, FULL, alibiSlope, endKey, firstKey, maskShift, maskTile } from "./mask";
import {
  ROW_STATS_BYTES, closeRowSum, dropRow, markRowRemoved, maskRowScores, removeRow, rowFactor, rowLse, softmaxRow,
  startRowStats,
} from "./online-softmax-row";
import { AttentionParams, FLOAT16_FINITE, NO_LSE } from "./params";
import { allFinite, fma, loadPartial, storePartial } from "./simd";
import { capScores } from "./softcap";

@inline const SCORES_BYTES: usize = <usize>BLOCK_K << 2;
@inline const BIAS_BYTES: usize = <usize>BLOCK_K << 5;

/** Bytes of a row of `n` floats, rounded up to the pairs of vectors that streamRows writes. */
@inline
function rowBytes(n: i32): usize {
  return <usize>((n + 7) & ~7) << 2;
}

/** Bytes of scratch for `rows` rows: of each the scaled query, scores, statistics, output and one block's output. */
export function decodeScratchBytes(rows: f64, d: i32, dv: i32): f64 {
  const paddedD = Math.ceil(<f64>d / 8) * 32, paddedDv = Math.ceil(<f64>dv / 8) * 32;
  return rows * (paddedD + <f64>SCORES_BYTES + <f64>ROW_STATS_BYTES + 2 * paddedDv) + <f64>BIAS_BYTES;
}

export function decode(params: AttentionParams, begin: i32, end: i32): void {
  for (let item = begin; item < end; ++item) decodeHead(params, item / params.numKvHeads, item % params.numKvHeads);
}

function decodeHead(params: AttentionParams, b: i32, hKv: i32): void {
  const group = params.numHeads / params.numKvHeads;
  const rows = group * params.lq, d = params.d, dv = params.dv;
  const query = params.scratch;
  const scores = query + <usize>rows * rowBytes(d);
  const stats = scores + <usize>rows * SCORES_BYTES;
  const sums = stats + <usize>rows * ROW_STATS_BYTES;
  const block = sums + <usize>rows * rowBytes(dv);
  const bias = block + <usize>rows * rowBytes(dv);
  const shift = kvShift(params.kvType);
  const k = params.key + ((<usize>b * params.keyBatch + <usize>hKv * params.keyHead) << shift);
  const v = params.value + ((<usize>b * params.valueBatch + <usize>hKv * params.valueHead) << shift);
  const position = load<i32>(params.queryOffsets + (<usize>b << 2));
  const kvLength = load<i32>(params.kvLengths + (<usize>b << 2));
  assert(0 <= kvLength && kvLength <= params.lk, "attention: kvLengths must be from 0 to lk");

  startRows(params, b, hKv * group, rows, query, stats, sums);
  const step = params.staging == 0 ? BLOCK_K : STAGED_ROWS; // keys that are read at a time
  const halves = readsHalves(params, rows) && areSmall(rows * d, query);
  if (halves) rebias(rows * d, query);
  const first = firstKey(params, position), last = endKey(params, position + params.lq - 1, kvLength);
  for (let from = first; from < last;) { // to the end of the block that `from` is in
    const to = min(from - from % BLOCK_K + BLOCK_K, last), keys = to - from;
    for (let j = 0; j < keys; j += step) {
      scoreKeys(params, halves, rows, query, k, from + j, min(step, keys - j), scores + (<usize>j << 2));
    }
    let whole = true;
    for (let g = 0; g < group; ++g) {
      const at = <usize>(g * params.lq);
      const s = scores + at * SCORES_BYTES;
      const full = weighHead(params, b, hKv * group + g, position, from, to, s, stats + at * ROW_STATS_BYTES, bias);
      whole = whole && full;
    }
    if (halves) rebias(rows * BLOCK_K, scores); // weights of 1 at most, and what is behind them
    zeroRows(rows, dv, block, rowBytes(dv));
    for (let j = 0; j < keys; j += step) {
      addValues(params, halves, whole, rows, scores + (<usize>j << 2), v, from + j, min(step, keys - j), block);
    }
    accumulateRows(rows, dv, stats, sums, block);
    from = to;
  }
  finishRows(params, b, hKv * group, rows, stats, sums);
}

/** True where K and V may be read as halves (half-rows.ts), no vector cut, and few rows share them: see HALF_ROWS. */
@inline
function readsHalves(params: AttentionParams, rows: i32): bool {
  return params.kvType == FLOAT16_FINITE && rows <= HALF_ROWS && ((params.d | params.dv) & 7) == 0;
}

/** Below this, 2^15, a number times REBIAS is below 2^127, and half of what would be Infinity. */
@inline const REBIAS_LIMIT: f32 = 32768;

/** True if n floats, a multiple of 4, may be made 2^112 times larger. */
function areSmall(n: i32, x: usize): bool {
  const bound = f32x4.splat(REBIAS_LIMIT);
  for (const end = x + (<usize>n << 2); x < end; x += 16) {
    if (!i32x4.all_true(f32x4.lt(f32x4.abs(v128.load(x)), bound))) return false;
  }
  return true;
}

/** Makes n floats, a multiple of 4, 2^112 times larger, for half-rows.ts. */
function rebias(n: i32, x: usize): void {
  const factor = f32x4.splat(REBIAS);
  for (const end = x + (<usize>n << 2); x < end; x += 16) v128.store(x, f32x4.mul(v128.load(x), factor));
}

/** The `count` rows of K or V from `from` on, by their stride. */
@inline
function rowsFrom(
  params: AttentionParams, halves: bool, k: usize, width: i32, row: usize, from: i32, count: i32,
): usize {
  if (params.staging == 0) return k + <usize>from * row;
  return cachedRows(params, k, width, from, count, halves, params.staging);
}

/** scores[row][0..n) = scaled query * keys [from, from + n). */
function scoreKeys(
  params: AttentionParams, halves: bool, rows: i32, query: usize, k: usize, from: i32, n: i32, scores: usize,
): void {
  const d = params.d, rowK = <usize>params.keyRow << 2;
  if (halves && isSideBySide(params, from, n)) {
    const direct = n - n % DOT_ROWS, keys = cachedRow(params, k, d, from);
    dotHalfRows(rows, direct, d, query, rowBytes(d), keys, <usize>d << 1, scores, SCORES_BYTES);
    from += direct;
    n -= direct;
    scores += <usize>direct << 2;
  }
  if (n == 0) return;
  const keys = rowsFrom(params, halves, k, d, rowK, from, n);
  dotRows(rows, n, d, query, rowBytes(d), keys, rowK, scores, SCORES_BYTES);
}

/** block += weights * values [from, from + n). `whole` where no key is masked. */
function addValues(
  params: AttentionParams, halves: bool, whole: bool, rows: i32, weights: usize, v: usize, from: i32, n: i32,
  block: usize,
): void {
  const dv = params.dv, rowV = <usize>params.valueRow << 2;
  if (halves && isSideBySide(params, from, n)) {
    const direct = n - n % ADD_ROWS, values = cachedRow(params, v, dv, from);
    addHalfRows(rows, dv, direct, weights, SCORES_BYTES, values, <usize>dv << 1, block, rowBytes(dv));
    from += direct;
    n -= direct;
    weights += <usize>direct << 2;
  }
  if (n == 0) return;
  const values = rowsFrom(params, halves, v, dv, rowV, from, n);
  if (whole || halves || allFinite(n, dv, values, rowV)) {
    addRows(rows, dv, n, weights, SCORES_BYTES, 4, values, rowV, block, rowBytes(dv));
  } else {
    addGuardedRows(rows, dv, n, weights, values, rowV, block);
  }
}

/** Bytes from the start of [batch, heads, lq] storage to row r of this file: its head and query. */
@inline
function queryRowOffset(params: AttentionParams, b: i32, h0: i32, r: i32, batch: i32, head: i32, row: i32): usize {
  return (<usize>b * batch + <usize>(h0 + r / params.lq) * head + <usize>(r % params.lq) * row) << 2;
}

/** Copies scale * q and clears statistics and sums. */
function startRows(params: AttentionParams, b: i32, h0: i32, rows: i32, query: usize, stats: usize, sums: usize): void {
  const factor = f32x4.splat(params.scale), zero = f32x4.splat(0);
  for (let r = 0; r < rows; ++r, stats += ROW_STATS_BYTES) {
    const q = params.query + queryRowOffset(params, b, h0, r, params.queryBatch, params.queryHead, params.queryRow);
    for (let c: usize = 0; c < rowBytes(params.d); c += 16, query += 16) {
      v128.store(query, f32x4.mul(factor, v128.load(q + c))); // lanes past d are never read
    }
    startRowStats(stats);
    for (let c: usize = 0; c < rowBytes(params.dv); c += 16, sums += 16) v128.store(sums, zero);
  }
}

/** Scores to weights for the lq rows of head h against keys [from, to). True if every row sees every key. */
function weighHead(
  params: AttentionParams, b: i32, h: i32, position: i32, from: i32, to: i32, scores: usize, stats: usize, bias: usize,
): bool {
  const mask = params.mask + ((<usize>b * params.maskBatch + <usize>h * params.maskHead) << maskShift(params));
  const visible = maskTile(params, mask, alibiSlope(params, b, h), position, params.lq, from, to, bias);
  for (let i = 0, row = scores; i < params.lq; ++i, row += SCORES_BYTES, stats += ROW_STATS_BYTES) {
    if (visible == EMPTY) {
      removeRow(to - from, row, stats);
      continue;
    }
    if (params.softcap > 0) capScores(params.softcap, row, rowBytes(to - from));
    if (visible != FULL) maskRowScores(to - from, row, bias + (<usize>i << 2));
    softmaxRow(to - from, row, stats);
    if (visible != FULL) markRowRemoved(to - from, row, bias + (<usize>i << 2));
  }
  if (params.hasDropout != 0) {
    dropTile(params, b, h, 0, params.lq, from, to, bias);
    for (let i = 0; i < params.lq; ++i) dropRow(to - from, scores + <usize>i * SCORES_BYTES, bias + (<usize>i << 2));
  }
  return visible == FULL;
}

/** block += weights V where V holds NaN or Infinity and some keys are masked: those are passed over. */
function addGuardedRows(rows: i32, dv: i32, keys: i32, weights: usize, v: usize, rowV: usize, block: usize): void {
  for (let r = 0; r < rows; ++r, weights += SCORES_BYTES) {
    for (let c: usize = 0; c < rowBytes(dv); c += 16, block += 16) {
      let sum = v128.load(block);
      for (let j = 0; j < keys; ++j) {
        const weight = weights + (<usize>j << 2);
        if (load<i32>(weight) == i32.MIN_VALUE) continue;
        sum = fma(v128.load32_splat(weight), v128.load(v + <usize>j * rowV + c), sum);
      }
      v128.store(block, sum);
    }
  }
}

/** sums = sums * rescale + block. */
function accumulateRows(rows: i32, dv: i32, stats: usize, sums: usize, block: usize): void {
  for (let r = 0; r < rows; ++r, stats += ROW_STATS_BYTES) {
    const rescale = rowFactor(stats);
    for (let c: usize = 0; c < rowBytes(dv); c += 16, sums += 16, block += 16) {
      v128.store(sums, fma(v128.load(sums), rescale, v128.load(block)));
    }
  }
}

/** out = sums / rowSum, zeros for a row without keys, and lse. */
function finishRows(params: AttentionParams, b: i32, h0: i32, rows: i32, stats: usize, sums: usize): void {
  const dv = params.dv;
  for (let r = 0; r < rows; ++r, stats += ROW_STATS_BYTES, sums += rowBytes(dv)) {
    const sink: f32 = params.sinks == 0 ? -Infinity : f32.load(params.sinks + (<usize>(h0 + r / params.lq) << 2));
    closeRowSum(stats, sink);
    const factor = rowFactor(stats);
    const out = params.out + queryRowOffset(params, b, h0, r, params.outBatch, params.outHead, params.outRow);
    let c = 0;
    for (; c + 4 <= dv; c += 4) {
      const at = <usize>c << 2;
      v128.store(out + at, f32x4.mul(v128.load(sums + at), factor));
    }
    const at = <usize>c << 2;
    if (c < dv) storePartial(out + at, f32x4.mul(loadPartial(sums + at, dv - c, factor), factor), dv - c);
    if (params.lse != NO_LSE) {
      const to = params.lse + (<usize>((b * params.numHeads + h0) * params.lq + r) << 2);
      f32.store(to, rowLse(stats));
    }
  }
}

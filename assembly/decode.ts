// Attention for few queries (areFew), as in decoding: bound by reading K and V, each of which is read once.
//
// The result of attention.ts, bit for bit: every row takes its scores, maxima, sums and products in the same order.
// Rows are the queries of all heads that share one key/value head: row r is head hKv * group + r / lq, query r % lq.
// Scores are kept [row][key]: lanes are keys, K is transposed in registers, V is added by rows (few-rows.ts).
// Work range [begin, end): items b * numKvHeads + hKv.
// Reads, writes, edges: as attention.ts. Scratch: decodeScratchBytes(rows, d, dv), 16-byte aligned.
import { cachedRow, cachedRows, isSideBySide, kvShift } from "./cache";
import { BLOCK_K, HALF_ROWS, NR, STAGED_ROWS } from "./config";
import { dropTile } from "./dropout";
import { SMALLEST_NORMAL, SMALLEST_WEIGHT, expNonPositive, expSubMaxPair } from "./exp";
import { addRows, dotRows, zeroRows } from "./few-rows";
import { REBIAS } from "./float16";
import { ADD_ROWS, DOT_ROWS, addHalfRows, dotHalfRows } from "./half-rows";
import { maxPlusLog } from "./log";
import { EMPTY, FULL, alibiSlope, endKey, firstKey, maskShift, maskTile } from "./mask";
import { AttentionParams, FLOAT16_FINITE } from "./params";
import { allFinite, fma, hmax, loadPartial, storePartial } from "./simd";
import { capScores } from "./softcap";

@inline const SCORES_BYTES: usize = <usize>BLOCK_K << 2;
@inline const BIAS_BYTES: usize = <usize>BLOCK_K << 5;

// Statistics of a row, 16 bytes.
@inline const STATS_BYTES: usize = 16;
@inline const ROW_SUM: usize = 4;
@inline const RESCALE_BY: usize = 8;

/** Bytes of a row of `n` floats, rounded up to the pairs of vectors that streamRows writes. */
@inline
function rowBytes(n: i32): usize {
  return <usize>((n + 7) & ~7) << 2;
}

/** Bytes of scratch for `rows` rows: of each the scaled query, scores, statistics, output and one block's output. */
export function decodeScratchBytes(rows: f64, d: i32, dv: i32): f64 {
  const paddedD = Math.ceil(<f64>d / 8) * 32, paddedDv = Math.ceil(<f64>dv / 8) * 32;
  return rows * (paddedD + <f64>SCORES_BYTES + <f64>STATS_BYTES + 2 * paddedDv) + <f64>BIAS_BYTES;
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
  const sums = stats + <usize>rows * STATS_BYTES;
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
      const full = weighHead(params, b, hKv * group + g, position, from, to, s, stats + at * STATS_BYTES, bias);
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

/** True if n floats, a multiple of 4, may be made 2^112 times larger. */
function areSmall(n: i32, x: usize): bool {
  const bound = f32x4.splat(32768);
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
  for (let r = 0; r < rows; ++r, stats += STATS_BYTES) {
    const q = params.query + queryRowOffset(params, b, h0, r, params.queryBatch, params.queryHead, params.queryRow);
    for (let c: usize = 0; c < rowBytes(params.d); c += 16, query += 16) {
      v128.store(query, f32x4.mul(factor, v128.load(q + c))); // lanes past d are never read
    }
    f32.store(stats, -Infinity);
    f32.store(stats + ROW_SUM, 0);
    for (let c: usize = 0; c < rowBytes(params.dv); c += 16, sums += 16) v128.store(sums, zero);
  }
}

/** Scores to weights for the lq rows of head h against keys [from, to). True if every row sees every key. */
function weighHead(
  params: AttentionParams, b: i32, h: i32, position: i32, from: i32, to: i32, scores: usize, stats: usize, bias: usize,
): bool {
  const mask = params.mask + ((<usize>b * params.maskBatch + <usize>h * params.maskHead) << maskShift(params));
  const visible = maskTile(params, mask, alibiSlope(params, b, h), position, params.lq, from, to, bias);
  for (let i = 0, row = scores; i < params.lq; ++i, row += SCORES_BYTES, stats += STATS_BYTES) {
    if (visible == EMPTY) {
      removeRow(to - from, row, stats);
      continue;
    }
    if (params.softcap > 0) capScores(params.softcap, row, rowBytes(to - from));
    if (visible != FULL) addBiasToRow(to - from, row, bias + (<usize>i << 2));
    softmaxRow(to - from, row, stats);
    if (visible != FULL) markRemovedInRow(to - from, row, bias + (<usize>i << 2));
  }
  if (params.hasDropout != 0) {
    dropTile(params, b, h, 0, from, to, bias);
    for (let i = 0; i < params.lq; ++i) dropRow(to - from, scores + <usize>i * SCORES_BYTES, bias + (<usize>i << 2));
  }
  return visible == FULL;
}

/** Multiplies weights by one lane of the tile of dropout.ts. */
function dropRow(keys: i32, weights: usize, tile: usize): void {
  for (let j = 0; j < keys; ++j, weights += 4, tile += 32) f32.store(weights, f32.load(weights) * f32.load(tile));
}

/** No key of the block: weights -0 (see GUARDED in microkernel.ts), statistics as they are. */
function removeRow(keys: i32, scores: usize, stats: usize): void {
  for (let j = 0; j < keys; ++j) f32.store(scores + (<usize>j << 2), -0.0);
  f32.store(stats + RESCALE_BY, 1);
}

/** Adds one lane of the bias tile; a removed key becomes -Infinity by selection, whatever its score. */
function addBiasToRow(keys: i32, scores: usize, bias: usize): void {
  for (let j = 0; j < keys; ++j, scores += 4, bias += 32) {
    const value = f32.load(bias);
    f32.store(scores, value == -Infinity ? value : f32.load(scores) + value);
  }
}

/** Sets the sign of the weights whose bias is -Infinity. */
function markRemovedInRow(keys: i32, weights: usize, bias: usize): void {
  for (let j = 0; j < keys; ++j, weights += 4, bias += 32) {
    if (f32.load(bias) == -Infinity) f32.store(weights, -0.0);
  }
}

/** Scores to weights by the running maximum; the sum runs over the keys in order. */
function softmaxRow(keys: i32, scores: usize, stats: usize): void {
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
    expSubMaxPair(at, at, m, m, SMALLEST_WEIGHT);
  }
  let sum: f32 = 0;
  for (let j = 0; j < keys; ++j) sum += f32.load(scores + (<usize>j << 2));
  const rescale = expNonPositive(f32x4.sub(f32x4.splat(old), m), SMALLEST_WEIGHT);
  const total = fma(f32x4.splat(f32.load(stats + ROW_SUM)), rescale, f32x4.splat(sum));
  f32.store(stats + ROW_SUM, f32x4.extract_lane(total, 0));
  f32.store(stats + RESCALE_BY, f32x4.extract_lane(rescale, 0));
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
  for (let r = 0; r < rows; ++r, stats += STATS_BYTES) {
    const rescale = v128.load32_splat(stats + RESCALE_BY);
    for (let c: usize = 0; c < rowBytes(dv); c += 16, sums += 16, block += 16) {
      v128.store(sums, fma(v128.load(sums), rescale, v128.load(block)));
    }
  }
}

/** The row's sum with its sink (-Infinity: none), the maximum updated; RESCALE_BY becomes what finishes the row. */
function closeRowSum(stats: usize, sink: f32): f32 {
  const rowMax = f32.load(stats), rowSum = f32.load(stats + ROW_SUM), next = rowMax < sink ? sink : rowMax;
  const m = f32x4.splat(next == -Infinity ? 0 : next);
  const kept = sink == -Infinity ? f32x4.splat(1) : expNonPositive(f32x4.sub(f32x4.splat(rowMax), m), SMALLEST_NORMAL);
  const term = expNonPositive(f32x4.sub(f32x4.splat(sink), m), SMALLEST_NORMAL);
  const sum = f32x4.extract_lane(fma(f32x4.splat(rowSum), kept, term), 0);
  f32.store(stats, next);
  f32.store(stats + RESCALE_BY, f32x4.extract_lane(kept, 0) * (rowSum == 0 ? 0 : 1 / sum));
  return sum;
}

/** out = sums / rowSum, zeros for a row without keys, and lse. */
function finishRows(params: AttentionParams, b: i32, h0: i32, rows: i32, stats: usize, sums: usize): void {
  const dv = params.dv;
  for (let r = 0; r < rows; ++r, stats += STATS_BYTES, sums += rowBytes(dv)) {
    const sink: f32 = params.sinks == 0 ? -Infinity : f32.load(params.sinks + (<usize>(h0 + r / params.lq) << 2));
    const rowSum = closeRowSum(stats, sink);
    const factor = v128.load32_splat(stats + RESCALE_BY);
    const out = params.out + queryRowOffset(params, b, h0, r, params.outBatch, params.outHead, params.outRow);
    let c = 0;
    for (; c + 4 <= dv; c += 4) {
      const at = <usize>c << 2;
      v128.store(out + at, f32x4.mul(v128.load(sums + at), factor));
    }
    const at = <usize>c << 2;
    if (c < dv) storePartial(out + at, f32x4.mul(loadPartial(sums + at, dv - c, factor), factor), dv - c);
    if (params.lse != 0) {
      const to = params.lse + (<usize>((b * params.numHeads + h0) * params.lq + r) << 2);
      f32.store(to, maxPlusLog(f32.load(stats), rowSum));
    }
  }
}

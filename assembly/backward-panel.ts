// One panel of 8 queries of attention-backward.ts against a block of keys: weights and their gradients, as tiles
// [key][BLOCK_Q queries] of which a panel fills 8 columns. The formulas stand in attention-backward.ts.
//
// A pair that is masked holds -0 in both tiles: it adds nothing to a sum, and where values are NaN or Infinity the
//   products pass it over (GUARDED in microkernel.ts).
// Panel: panelBytes(d, dv) at `panel`, 16-byte aligned: statistics (backward-tile.ts) and behind them scale * Q^T, dO^T
//   and dQ^T, d, dv and d rows of 32 bytes.
// Order: startPanel; differentiatePanel for each block of keys, after which the products take its columns and add to
//   dQ^T; closePanel.
// Reads query, out, lse, dOut and dLse of its rows, the keys and values of the block, mask and sinks: exactly, but for
//   the mask as mask.ts says. Writes its columns of the tiles; adds to dMask, and closePanel to dQuery and dSinks.
// Scratch: what Block points to, laid out in attention-backward.ts.
// Accuracy: part of that of the backward (test/attention-backward.test.ts).
import {
  DELTA, FACTOR, MAX, TILE_ROW, biasColumns, capColumns, clearColumns, removeColumns, uncapColumns, weighColumns,
} from "./backward-tile";
import { BLOCK_K, EXACT_LSE, NR, SAME_LSE } from "./config";
import { dropTile, dropWeights } from "./dropout";
import { RESCALE } from "./epilogue";
import { SMALLEST_NORMAL, expNonPositive } from "./exp";
import { maxPlusLog } from "./log";
import { EMPTY, FULL, PARTIAL, endKey, firstKey, firstMixed, maskShift, maskTile } from "./mask";
import { ROWS, panel } from "./microkernel";
import { ROW_MAX, ROW_SUM, STATS_BYTES, closeSums, startStats } from "./online-softmax";
import { packRows } from "./pack";
import { AttentionGradients, AttentionParams } from "./params";
import { weighKeys } from "./scores";
import { dot, fma, hsum, storeTransposed4 } from "./simd";

/** Where one block of queries stands: it lies in scratch. Pointers are those of its first query and of key 0. */
@unmanaged
export class Block {
  query: usize;
  out: usize;
  lse: usize;
  key: usize;
  value: usize;
  mask: usize;
  dOut: usize;
  dLse: usize; // 0: none
  dQuery: usize;
  dKey: usize;
  dValue: usize;
  dMask: usize; // 0: not wanted
  b: i32;
  h: i32;
  q0: i32;
  rows: i32;
  position: i32;
  kvLength: i32;
  slope: f32;
  sumsRows: i32; // 1: dMask or dSinks is wanted
  // Scratch: see attention-backward.ts.
  panels: usize;
  columnsQ: usize;
  columnsO: usize;
  tile: usize;
  dTile: usize;
  bias: usize;
  capped: usize;
  drop: usize;
}

/** Bytes of a panel. */
@inline
export function panelBytes(d: i32, dv: i32): usize {
  return STATS_BYTES + ((2 * <usize>d + dv) << 5);
}

@inline
function outGradientT(panel: usize, d: i32): usize {
  return panel + STATS_BYTES + (<usize>d << 5);
}

/** dQ^T of a panel, without the scale. */
@inline
export function queryGradientT(panel: usize, d: i32, dv: i32): usize {
  return panel + STATS_BYTES + ((<usize>d + dv) << 5);
}

/** Packs the panel of the queries from row r of the block on, and fills its statistics. */
export function startPanel(params: AttentionParams, block: Block, r: i32, panel: usize): void {
  const count = min(NR, block.rows - r), d = params.d, dv = params.dv;
  const rowQ = <usize>params.queryRow << 2, rowO = <usize>params.outRow << 2;
  const out = block.out + <usize>r * rowO, dOut = block.dOut + <usize>r * rowO;
  packRows(d, count, params.scale, block.query + <usize>r * rowQ, rowQ, panel + STATS_BYTES);
  packRows(dv, count, 1, dOut, rowO, outGradientT(panel, d));
  memory.fill(queryGradientT(panel, d, dv), 0, <usize>d << 5);
  if (isInexact(block, r, count)) sumPanel(params, block, r, count, panel);
  else memory.fill(panel, 0, STATS_BYTES); // ROW_SUM of 0: no sum
  for (let i = 0; i < NR; ++i) {
    const at = panel + (<usize>i << 2), row = <usize>(r + i) << 2;
    const lse: f32 = i < count ? f32.load(block.lse + row) : -Infinity;
    if (lse == -Infinity) { // no row, or one without keys: every weight is 0, that of the sink too
      f32.store(at + MAX, Infinity);
      f32.store(at + FACTOR, 0);
      f32.store(at + DELTA, 0);
      continue;
    }
    normalizeRow(at, lse);
    // Summed as dP is: of a row that sees one key both are the same bits, and dS is exactly 0.
    const dLse: f32 = block.dLse == 0 ? 0 : f32.load(block.dLse + row);
    f32.store(at + DELTA, dot(dv, dOut + <usize>i * rowO, out + <usize>i * rowO) - dLse);
  }
}

/** Whether lse alone is not exact enough: a row's is large, or a gradient that sums over rows is wanted. */
function isInexact(block: Block, r: i32, count: i32): bool {
  if (block.sumsRows != 0) return true;
  for (let i = r; i < r + count; ++i) {
    const value = abs(f32.load(block.lse + (<usize>i << 2)));
    if (value > EXACT_LSE && value < Infinity) return true;
  }
  return false;
}

/** Maximum and sum of every row, by the online softmax of the forward. */
function sumPanel(params: AttentionParams, block: Block, r: i32, count: i32, panel: usize): void {
  const position = block.position + r;
  const mask = block.mask + ((<usize>r * params.maskRow) << maskShift(params));
  const first = firstKey(params, position), last = endKey(params, position + count - 1, block.kvLength);
  startStats(panel);
  for (let from = first; from < last;) { // to the end of the block that `from` is in
    const to = min(from - from % BLOCK_K + BLOCK_K, last), rowK = <usize>params.keyRow << 2;
    weighKeys(
      params, block.key, rowK, mask, block.slope, position, count, from, to, panel, block.tile, block.bias,
    );
    from = to;
  }
  closeSums(panel, params.sinks == 0 ? -Infinity : f32.load(params.sinks + (<usize>block.h << 2)));
}

/** MAX and FACTOR of the row whose lane stands at `at`: of its sum where that agrees with lse, else of lse alone. */
function normalizeRow(at: usize, lse: f32): void {
  const rowMax = f32.load(at + ROW_MAX), rowSum = f32.load(at + ROW_SUM);
  if (rowSum != 0 && abs(maxPlusLog(rowMax, rowSum) - lse) <= abs(lse) * SAME_LSE) {
    f32.store(at + FACTOR, 1 / rowSum);
    return;
  }
  f32.store(at + MAX, lse);
  f32.store(at + FACTOR, 1);
}

/**
 * Columns r..r + 8 of the tiles for keys [k0, k1): weights (dropped ones 0) and dS. Returns FULL where every pair is
 * live, EMPTY where none is, else PARTIAL.
 */
export function differentiatePanel(params: AttentionParams, block: Block, r: i32, panel: usize, k0: i32, k1: i32): i32 {
  const position = block.position + r, count = min(NR, block.rows - r);
  const begin = max(k0, firstKey(params, position));
  const end = min(k1, endKey(params, position + count - 1, k1));
  let tile = block.tile + (<usize>r << 2), dTile = block.dTile + (<usize>r << 2);
  let visible = EMPTY, mixed = begin;
  if (begin < end) {
    const mask = block.mask + ((<usize>r * params.maskRow) << maskShift(params));
    mixed = firstMixed(params, block.slope, position, count, begin, end);
    visible = mixed == end ? FULL : maskTile(params, mask, block.slope, position, count, mixed, end, block.bias);
  }
  if (visible == EMPTY && mixed == begin) {
    clearColumns(k1 - k0, tile, dTile);
    return EMPTY;
  }
  clearColumns(begin - k0, tile, dTile);
  tile += <usize>(begin - k0) * TILE_ROW;
  dTile += <usize>(begin - k0) * TILE_ROW;
  clearColumns(k1 - end, tile + <usize>(end - begin) * TILE_ROW, dTile + <usize>(end - begin) * TILE_ROW);
  const whole = visible == FULL ? end : mixed;
  fillColumns(params, block, r, panel, begin, whole, end, tile, dTile);
  return begin == k0 && end == k1 && whole == end ? FULL : PARTIAL;
}

/** The live range [begin, end) of one panel, of which the keys from `whole` on have a bias. */
function fillColumns(
  params: AttentionParams, block: Block, r: i32, panel: usize, begin: i32, whole: i32, end: i32,
  tile: usize, dTile: usize,
): void {
  const keys = end - begin, biased = end - whole, d = params.d, dv = params.dv;
  const rowK = <usize>params.keyRow << 2, rowV = <usize>params.valueRow << 2;
  const at = <usize>(whole - begin) * TILE_ROW;
  multiply(keys, d, block.key + <usize>begin * rowK, rowK, panel + STATS_BYTES, tile);
  multiply(keys, dv, block.value + <usize>begin * rowV, rowV, outGradientT(panel, d), dTile);
  if (params.softcap > 0) capColumns(params.softcap, keys, tile, block.capped);
  if (biased > 0) biasColumns(biased, tile + at, block.bias);
  if (params.hasDropout != 0) {
    dropTile(params, block.b, block.h, block.q0 + r, NR, begin, end, block.drop);
    dropWeights(keys, dTile, TILE_ROW, block.drop);
  }
  weighColumns(keys, tile, dTile, panel);
  if (params.hasDropout != 0) dropWeights(keys, tile, TILE_ROW, block.drop);
  if (biased > 0) removeColumns(biased, tile + at, dTile + at, block.bias);
  if (block.dMask != 0) addMaskGradient(params, block, r, begin, end, dTile);
  if (params.softcap > 0) {
    uncapColumns(params.softcap, keys, dTile, block.capped);
    if (biased > 0) removeColumns(biased, tile + at, dTile + at, block.bias); // a masked score may be NaN
  }
}

/** tile[key][8 columns] = rows of x times packed. */
function multiply(keys: i32, n: i32, x: usize, rowX: usize, packed: usize, tile: usize): void {
  const none = f32x4.splat(0);
  panel(ROWS, RESCALE, keys, n, x, rowX, 4, packed, 32, tile, TILE_ROW, 8, none, none, false, 0);
}

/** dMask += dS, by the strides of the mask: 0 sums over an axis that is broadcast. */
function addMaskGradient(params: AttentionParams, block: Block, r: i32, begin: i32, end: i32, dTile: usize): void {
  const count = min(NR, block.rows - r);
  for (let i = 0; i < count; ++i) {
    let to = block.dMask + ((<usize>(r + i) * params.maskRow + <usize>begin * params.maskColumn) << 2);
    let from = dTile + (<usize>i << 2);
    for (let k = begin; k < end; ++k, from += TILE_ROW, to += <usize>params.maskColumn << 2) {
      f32.store(to, f32.load(to) + f32.load(from));
    }
  }
}

/** Adds scale * dQ of the panel to the gradient, and what its rows give to the sink of their head. */
export function closePanel(params: AttentionParams, block: Block, dSinks: usize, r: i32, panel: usize): void {
  const count = min(NR, block.rows - r), rowQ = <usize>params.queryRow << 2;
  const from = queryGradientT(panel, params.d, params.dv), to = block.dQuery + <usize>r * rowQ;
  addTransposed(params.d, min(4, count), params.scale, from, to, rowQ, block.tile);
  if (count > 4) addTransposed(params.d, count - 4, params.scale, from + 16, to + 4 * rowQ, rowQ, block.tile);
  if (dSinks == 0) return;
  const sink = v128.load32_splat(params.sinks + (<usize>block.h << 2));
  const sum = f32x4.add(sinkGradient(panel, sink), sinkGradient(panel + 16, sink));
  f32.store(dSinks + (<usize>block.h << 2), f32.load(dSinks + (<usize>block.h << 2)) - hsum(sum));
}

/** P_sink D of four rows. */
@inline
function sinkGradient(stats: usize, sink: v128): v128 {
  const weight = expNonPositive(f32x4.sub(sink, v128.load(stats + MAX)), SMALLEST_NORMAL);
  return f32x4.mul(f32x4.mul(weight, v128.load(stats + FACTOR)), v128.load(stats + DELTA));
}

/** Adds alpha times the transpose of n rows of `lanes` <= 4 (32 bytes apart) to `lanes` rows of n; temp: 64 bytes. */
function addTransposed(n: i32, lanes: i32, alpha: f32, from: usize, to: usize, rowTo: usize, temp: usize): void {
  const factor = f32x4.splat(alpha);
  let c = 0;
  for (; c + 4 <= n; c += 4, from += 128) {
    storeTransposed4(false, temp, 16, v128.load(from), v128.load(from, 32), v128.load(from, 64), v128.load(from, 96));
    for (let i: usize = 0; i < <usize>lanes; ++i) {
      const at = to + i * rowTo + (<usize>c << 2);
      v128.store(at, fma(factor, v128.load(temp + (i << 4)), v128.load(at)));
    }
  }
  for (; c < n; ++c, from += 32) {
    for (let i: usize = 0; i < <usize>lanes; ++i) {
      const at = to + i * rowTo + (<usize>c << 2);
      const sum = fma(factor, v128.load32_splat(from + (i << 2)), v128.load32_splat(at));
      v128.store32_lane(at, sum, 0);
    }
  }
}

// Scaled dot-product attention, forward, fused and tiled: out = softmax(scale * Q K^T + bias) V, no score ever stored.
//
//   s_ij = scale * (q_i . k_j), capped softly where softcap > 0, + bias_ij;  p_ij = exp(s_ij - max_j s_ij);
//   out_i = sum_j M_ij p_ij v_j / sum_j p_ij;  lse_i = max_j s_ij + log sum_j p_ij   (natural logarithm).
//   M_ij: 0 or 1 / (1 - dropoutP) (dropout.ts), 1 without dropout. A sink is one more term of max and sum, without a
//   value.
// Shapes and strides: AttentionParams. Query head h reads key/value head floor(h * numKvHeads / numHeads).
// Work range [begin, end): items (b * numHeads + h) * ceil(lq / BLOCK_Q) + block of queries; decode.ts has its own.
// Reads query, key, value and mask (up to READ_SLACK past their ends), or in the place of key and value the rows of a
//   cache (cache.ts) where params.staging is not 0; queryOffsets, kvLengths, alibiSlopes and sinks exactly. Writes out
//   and lse exactly.
// Scratch: attentionScratchBytes(..), and for a cache cacheStagingBytes(..) at params.staging, both 16-byte aligned; no
//   other memory. Neither grows with lk, nor with lq but for few queries, whose rows of all heads that share a
//   key/value head are held at once.
// Edges: a masked key never reaches the result, NaN and Infinity included; a row without keys gives out 0, and lse
//   -Infinity or its sink; NaN in a live key or query reaches exactly the rows that see it; weights below 1e-30 of the
//   largest are 0.
// Order over keys: blocks of BLOCK_K from key 0, in order, each summed in order and then added; lk alone decides it.
// Accuracy: at most twice the error of the same computation in plain float32 (test/attention.test.ts).
// Method: FlashAttention's online softmax (Dao et al. 2022, algorithm 1). Scores are kept transposed, tile[key][8
//   queries]: vector lanes are queries, so max, exp and sum need no horizontal step, K and V are read where they stand
//   by broadcasts, and the finished weights are already the packed operand of the second product.
import { cachedRows, kvShift } from "./cache";
import { BLOCK_K, BLOCK_Q, NR } from "./config";
import { decode, decodeScratchBytes } from "./decode";
import { dropTile, dropWeights } from "./dropout";
import { RESCALE } from "./epilogue";
import { areFew } from "./few-queries";
import { alibiSlope, endKey, firstKey, maskShift } from "./mask";
import { COLUMNS, guardedPanel, panel } from "./microkernel";
import {
  RESCALE_BY, ROW_MAX, ROW_SUM, STARTED, STATS_BYTES, closeSums, markRemoved, startStats,
} from "./online-softmax";
import { packRows } from "./pack";
import { AttentionParams, NO_LSE } from "./params";
import { maxPlusLog } from "./log";
import { weighKeys } from "./scores";
import { allFinite, storeTransposed4 } from "./simd";

// Scratch of one block of queries, in this order: per panel of 8 queries STATS_BYTES of running statistics,
// d rows of Q^T and dv rows of out^T, 32 bytes each; then one tile of scores and one of bias.
@inline export const PANELS: usize = (BLOCK_Q + NR - 1) / NR;
@inline const TILE_BYTES: usize = <usize>BLOCK_K << 5;

@inline
function panelBytes(d: i32, dv: i32): usize {
  return STATS_BYTES + ((<usize>d + dv) << 5);
}

/** Bytes of scratch that one caller of `attention` needs, in float64: the sizes asked for may be beyond any memory. */
export function attentionScratchBytes(numHeads: i32, numKvHeads: i32, lq: i32, lk: i32, d: i32, dv: i32): f64 {
  if (areFew(lq, lk, d)) return decodeScratchBytes(<f64>numHeads / max(numKvHeads, 1) * lq, d, dv);
  return <f64>PANELS * (<f64>STATS_BYTES + 32 * (<f64>d + dv)) + 2 * <f64>TILE_BYTES;
}

/** Work items of a problem: one for each head and block of queries, or each key/value head where queries are few. */
export function attentionWorkItems(batch: i32, numHeads: i32, numKvHeads: i32, lq: i32, lk: i32, d: i32): i32 {
  if (areFew(lq, lk, d)) return min(lq, 1) * batch * min(numHeads, numKvHeads);
  return batch * numHeads * ((lq + BLOCK_Q - 1) / BLOCK_Q);
}

export function attention(params: AttentionParams, begin: i32, end: i32): void {
  assert(0 <= begin && begin <= end, "attention: work range");
  assert((params.scratch & 15) == 0, "attention: scratch must be 16-byte aligned");
  assert(params.numHeads % max(params.numKvHeads, 1) == 0, "attention: numHeads must be a multiple of numKvHeads");
  assert(params.d > 0 && params.dv >= 0 && params.lk >= 0, "attention: sizes");
  if (areFew(params.lq, params.lk, params.d)) {
    decode(params, begin, end);
    return;
  }
  const blocks = (params.lq + BLOCK_Q - 1) / BLOCK_Q;
  for (let item = begin; item < end; ++item) {
    const head = item / blocks;
    attendBlock(params, head / params.numHeads, head % params.numHeads, (item % blocks) * BLOCK_Q);
  }
}

/** Rows [q0, q0 + BLOCK_Q) of head h: all key blocks they see, each used by every panel while it is in cache. */
function attendBlock(params: AttentionParams, b: i32, h: i32, q0: i32): void {
  const rows = min(BLOCK_Q, params.lq - q0);
  const hKv = <i32>((<i64>h) * params.numKvHeads / params.numHeads);
  const q = params.query
    + ((<usize>b * params.queryBatch + <usize>h * params.queryHead + <usize>q0 * params.queryRow) << 2);
  const shift = kvShift(params.kvType);
  const k = params.key + ((<usize>b * params.keyBatch + <usize>hKv * params.keyHead) << shift);
  const v = params.value + ((<usize>b * params.valueBatch + <usize>hKv * params.valueHead) << shift);
  const mask = params.mask
    + ((<usize>b * params.maskBatch + <usize>h * params.maskHead + <usize>q0 * params.maskRow) << maskShift(params));
  const position = q0 + load<i32>(params.queryOffsets + (<usize>b << 2));
  const kvLength = load<i32>(params.kvLengths + (<usize>b << 2));
  const slope = alibiSlope(params, b, h);
  assert(0 <= kvLength && kvLength <= params.lk, "attention: kvLengths must be from 0 to lk");

  startPanels(params, q, rows);
  const first = firstKey(params, position);
  const last = endKey(params, position + rows - 1, kvLength);
  for (let k0 = first - first % BLOCK_K; k0 < last; k0 += BLOCK_K) {
    const from = max(k0, first), to = min(k0 + BLOCK_K, kvLength);
    const keys = cachedBlock(params, k, params.d, params.keyRow, from, to, 0);
    const values = cachedBlock(params, v, params.dv, params.valueRow, from, to, <usize>(BLOCK_K * params.d) << 2);
    attendKeys(params, keys, values, mask, slope, b, h, q0, position, rows, from, to);
  }
  const outRow = <usize>params.outRow << 2;
  const out = params.out
    + ((<usize>b * params.outBatch + <usize>h * params.outHead + <usize>q0 * params.outRow) << 2);
  const lse = params.lse + (<usize>((b * params.numHeads + h) * params.lq + q0) << 2);
  for (let r = 0, panel = params.scratch; r < rows; r += NR, panel += panelBytes(params.d, params.dv)) {
    const count = min(NR, rows - r);
    closeSums(panel, params.sinks == 0 ? -Infinity : f32.load(params.sinks + (<usize>h << 2)));
    finishPanel(params, panel, out + <usize>r * outRow, outRow, count);
    if (params.lse != NO_LSE) storeLse(panel, lse + (<usize>r << 2), count);
  }
}

/** Where key 0 would stand so that [from, to) stand by their stride: in a cache they may be elsewhere, or float16. */
@inline
function cachedBlock(
  params: AttentionParams, k: usize, width: i32, row: i32, from: i32, to: i32, offset: usize,
): usize {
  if (params.staging == 0) return k;
  return cachedRows(params, k, width, from, to - from, false, params.staging + offset) - ((<usize>from * row) << 2);
}

/** Packs scale * Q^T and clears the statistics and outputs of each panel. */
function startPanels(params: AttentionParams, q: usize, rows: i32): void {
  const rowQ = <usize>params.queryRow << 2;
  let panel = params.scratch;
  for (let r = 0; r < rows; r += NR) {
    startStats(panel);
    packRows(params.d, min(NR, rows - r), params.scale, q + <usize>r * rowQ, rowQ, panel + STATS_BYTES);
    panel += panelBytes(params.d, params.dv);
  }
}

/** The keys [k0, k1) of one block for every panel: scores, online softmax, out += weights * values. */
function attendKeys(
  params: AttentionParams, k: usize, v: usize, mask: usize, slope: f32, b: i32, h: i32, q0: i32, position: i32,
  rows: i32, k0: i32, k1: i32,
): void {
  const rowK = <usize>params.keyRow << 2, rowV = <usize>params.valueRow << 2;
  const step = panelBytes(params.d, params.dv);
  const tile = params.scratch + PANELS * step, bias = tile + TILE_BYTES;
  const maskRow = <usize>params.maskRow << maskShift(params);
  let checked = k1; // the keys of the block from here on have been looked at for NaN and Infinity in V
  let finite = true;
  for (let r = 0, panel = params.scratch; r < rows; r += NR, panel += step) {
    const count = min(NR, rows - r);
    const begin = max(k0, firstKey(params, position + r));
    const end = min(k1, endKey(params, position + r + count - 1, k1));
    if (begin >= end) continue;
    const whole = weighKeys(
      params, k, rowK, mask + <usize>r * maskRow, slope, position + r, count, begin, end, panel, tile, bias,
    );
    if (whole < 0) continue;
    // Only keys that some of these rows do not see: in a causal call one block in many, and a quarter of that.
    if (whole < min(end, checked)) {
      finite = finite && allFinite(checked - whole, params.dv, v + <usize>whole * rowV, rowV);
      checked = whole;
    }
    const guarded = whole < end && !finite;
    if (guarded) markRemoved(end - whole, tile + (<usize>(whole - begin) << 5), bias);
    if (params.hasDropout != 0) {
      dropTile(params, b, h, q0 + r, NR, begin, end, bias);
      dropWeights(end - begin, tile, 32, bias);
    }
    const outT = panel + STATS_BYTES + (<usize>params.d << 5);
    accumulate(guarded, end - begin, params.dv, v + <usize>begin * rowV, rowV, panel, tile, outT);
    store<i32>(panel + STARTED, 1);
  }
}

/**
 * outT[column][8] = outT * rescale + V^T weights; the first block of keys stores without reading. `guarded` where V
 * holds NaN or Infinity and some keys are masked for some rows only.
 */
function accumulate(
  guarded: bool, keys: i32, dv: i32, v: usize, rowV: usize, stats: usize, weights: usize, outT: usize,
): void {
  const r0 = v128.load(stats + RESCALE_BY), r1 = v128.load(stats + RESCALE_BY, 16);
  const reads = load<i32>(stats + STARTED) != 0;
  if (guarded) guardedPanel(dv, keys, v, rowV, weights, 32, outT, 32, r0, r1, reads);
  else panel(COLUMNS, RESCALE, dv, keys, v, 4, rowV, weights, 32, outT, 32, 8, r0, r1, reads, 0);
}

/** Divides by the sums and transposes the panel's out^T into `count` rows of out; zeros where no key was seen. */
function finishPanel(params: AttentionParams, panel: usize, out: usize, outRow: usize, count: i32): void {
  const outT = panel + STATS_BYTES + (<usize>params.d << 5);
  const dv = params.dv;
  if (load<i32>(panel + STARTED) == 0) {
    for (let i = 0; i < count; ++i) memory.fill(out + <usize>i * outRow, 0, <usize>dv << 2);
    return;
  }
  for (let half: usize = 0; half < 2 && <i32>half * 4 < count; ++half) {
    const inverse = v128.load(panel + RESCALE_BY + (half << 4));
    const lanes = min(4, count - <i32>half * 4);
    const from = outT + (half << 4);
    const to = out + (half << 2) * outRow;
    let c = 0;
    if (lanes == 4) {
      for (; c + 4 <= dv; c += 4) finishSquare(from + (<usize>c << 5), to + (<usize>c << 2), outRow, inverse);
    }
    for (; c < dv; ++c) finishColumn(from + (<usize>c << 5), to + (<usize>c << 2), outRow, inverse, lanes);
  }
}

/** Four columns of out^T, four lanes each, to a 4 x 4 square of out. */
@inline
function finishSquare(from: usize, to: usize, outRow: usize, inverse: v128): void {
  storeTransposed4(
    false, to, outRow, f32x4.mul(v128.load(from), inverse), f32x4.mul(v128.load(from, 32), inverse),
    f32x4.mul(v128.load(from, 64), inverse), f32x4.mul(v128.load(from, 96), inverse),
  );
}

/** One column of out^T to the first `lanes` rows of out. */
@inline
function finishColumn(from: usize, to: usize, outRow: usize, inverse: v128, lanes: i32): void {
  const r = f32x4.mul(v128.load(from), inverse);
  v128.store32_lane(to, r, 0);
  if (lanes > 1) v128.store32_lane(to + outRow, r, 1);
  if (lanes > 2) v128.store32_lane(to + 2 * outRow, r, 2);
  if (lanes > 3) v128.store32_lane(to + 3 * outRow, r, 3);
}

/** lse of the panel's rows: -Infinity + log 0 = -Infinity where there is no key and no sink. */
function storeLse(stats: usize, lse: usize, count: i32): void {
  for (let i = 0; i < count; ++i) {
    const at = <usize>i << 2;
    f32.store(lse + at, maxPlusLog(f32.load(stats + ROW_MAX + at), f32.load(stats + ROW_SUM + at)));
  }
}

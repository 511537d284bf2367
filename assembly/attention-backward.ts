// Scaled dot-product attention, backward, fused and tiled: weights are made again from lse, and never all stored.
//
//   P_ij = exp(s_ij - lse_i), s as in attention.ts;  M_ij: 0 or 1 / (1 - dropoutP), 1 without dropout
//   D_i = dO_i . O_i - dLse_i;  dP_ij = dO_i . v_j;  dS_ij = P_ij (M_ij dP_ij - D_i)
//   dMask += dS;  dS *= 1 - (s / softcap)^2, s capped, where softcap > 0
//   dV_j += sum_i P_ij M_ij dO_i;  dK_j += scale sum_i dS_ij q_i;  dQ_i += scale sum_j dS_ij k_j
//   dSinks_h += -sum_i exp(sink_h - lse_i) D_i
// Shapes and strides: AttentionParams (out and lse are inputs here) and AttentionGradients. Every gradient is ADDED to:
//   the caller clears them. So operands and masks that are broadcast have theirs summed, as have the heads of a group.
// Work range [begin, end): items b * numKvHeads + hKv. Items that share a gradient (batch strides of 0, mask, sinks)
//   must not run at once.
// Reads what attention.ts reads, out, lse, dOut, dLse. Scratch: attentionBackwardScratchBytes(..), 16-byte aligned,
//   which grows with neither lq nor lk.
// Edges: a masked key gives and gets exactly nothing, NaN and Infinity behind a mask included; so does a row without
//   keys, whatever its dOut; NaN in a live pair reaches what depends on it.
// Order: for each head of the group, blocks of BLOCK_Q queries, for each blocks of BACKWARD_K keys from key 0; sums
//   within a block ascending. No other order in any number of threads.
// Accuracy: at most three times the error of plain float32 (test/attention-backward.test.ts). lse alone would not do:
//   half an ulp of it is the relative error of every weight of its row. So where |lse| > EXACT_LSE, and for dMask and
//   dSinks, sums of many rows that may cancel, the sums are made anew by the online softmax of the forward, and taken
//   where they agree with the lse that was given (it may belong to more keys than these).
// Method: Dao et al. 2022, FlashAttention, algorithm 4. Tiles are [key][BLOCK_Q queries]: K and V are read in place by
//   broadcasts for S^T, dP^T and dQ^T, and each tile is the left operand, in place, of dV and dK.
import { PANELS } from "./attention";
import { Block, closePanel, differentiatePanel, panelBytes, queryGradientT, startPanel } from "./backward-panel";
import { TILE_ROW } from "./backward-tile";
import { BACKWARD_K, BLOCK_K, BLOCK_Q, NR } from "./config";
import { GEMM, RESCALE } from "./epilogue";
import { EMPTY, FULL, alibiSlope, endKey, firstKey, maskShift } from "./mask";
import { COLUMNS, ROWS, guardedPanel, panel } from "./microkernel";
import { packColumns } from "./pack";
import { AttentionGradients, AttentionParams } from "./params";
import { allFinite, fma, storePartial } from "./simd";

// Scratch: a Block; its panels of 8 queries; Q and dO in panels of 8 columns; a tile of weights and one of their
// gradients, [key][BLOCK_Q]; of one panel [key][8] bias, capped scores and what dropout leaves. Sums that are made anew
// go by BLOCK_K keys: there the bias has as many rows, and the first tile holds the scores of one panel.
@inline const BLOCK_BYTES: usize = (offsetof<Block>() + 15) & ~15;
@inline const TILE_BYTES: usize = <usize>BACKWARD_K * TILE_ROW;
@inline const BIAS_BYTES: usize = <usize>BLOCK_K << 5;
@inline const PANEL_BYTES: usize = <usize>BACKWARD_K << 5;

/** Bytes of n columns of a block of queries, in panels of 8. */
@inline
function columnBytes(n: i32): usize {
  return <usize>((n + 7) >> 3) * (<usize>BLOCK_Q << 5);
}

/** Bytes of scratch that one caller of `attentionBackward` needs, in float64: the sizes may be beyond any memory. */
export function attentionBackwardScratchBytes(d: i32, dv: i32): f64 {
  const rest = <f64>(BLOCK_BYTES + PANELS * panelBytes(0, 0) + 2 * TILE_BYTES + BIAS_BYTES + 2 * PANEL_BYTES);
  const panels = 32 * <f64>PANELS * (2 * <f64>d + <f64>dv);
  return rest + panels + 32 * <f64>BLOCK_Q * (Math.ceil(<f64>d / 8) + Math.ceil(<f64>dv / 8));
}

/** Work items of a problem: one for each key/value head. */
export function attentionBackwardWorkItems(batch: i32, numHeads: i32, numKvHeads: i32): i32 {
  return batch * min(numHeads, numKvHeads);
}

export function attentionBackward(params: AttentionParams, gradients: AttentionGradients, begin: i32, end: i32): void {
  assert(0 <= begin && begin <= end, "attentionBackward: work range");
  assert((params.scratch & 15) == 0, "attentionBackward: scratch must be 16-byte aligned");
  assert(BACKWARD_K <= BLOCK_K && <usize>BLOCK_K << 5 <= TILE_BYTES, "attentionBackward: sizes of blocks");
  assert(params.numHeads % max(params.numKvHeads, 1) == 0, "attentionBackward: heads");
  assert(params.d > 0 && params.dv >= 0 && params.lk >= 0, "attentionBackward: sizes");
  const group = params.numHeads / max(params.numKvHeads, 1);
  const block = changetype<Block>(params.scratch);
  block.panels = params.scratch + BLOCK_BYTES;
  block.columnsQ = block.panels + PANELS * panelBytes(params.d, params.dv);
  block.columnsO = block.columnsQ + columnBytes(params.d);
  block.tile = block.columnsO + columnBytes(params.dv);
  block.dTile = block.tile + TILE_BYTES;
  block.bias = block.dTile + TILE_BYTES;
  block.capped = block.bias + BIAS_BYTES;
  block.drop = block.capped + PANEL_BYTES;
  for (let item = begin; item < end; ++item) {
    const b = item / params.numKvHeads, hKv = item % params.numKvHeads;
    for (let h = hKv * group; h < (hKv + 1) * group; ++h) {
      for (let q0 = 0; q0 < params.lq; q0 += BLOCK_Q) {
        placeBlock(params, gradients, block, b, h, hKv, q0);
        differentiateBlock(params, block, gradients.dSinks);
      }
    }
  }
}

/** Pointers and position of the queries [q0, q0 + BLOCK_Q) of head h. */
function placeBlock(
  params: AttentionParams, gradients: AttentionGradients, block: Block, b: i32, h: i32, hKv: i32, q0: i32,
): void {
  const atQ = (<usize>b * params.queryBatch + <usize>h * params.queryHead + <usize>q0 * params.queryRow) << 2;
  const atO = (<usize>b * params.outBatch + <usize>h * params.outHead + <usize>q0 * params.outRow) << 2;
  const atK = (<usize>b * params.keyBatch + <usize>hKv * params.keyHead) << 2;
  const atV = (<usize>b * params.valueBatch + <usize>hKv * params.valueHead) << 2;
  const atLse = <usize>((b * params.numHeads + h) * params.lq + q0) << 2;
  const atMask = <usize>b * params.maskBatch + <usize>h * params.maskHead + <usize>q0 * params.maskRow;
  block.b = b;
  block.h = h;
  block.q0 = q0;
  block.rows = min(BLOCK_Q, params.lq - q0);
  block.position = q0 + load<i32>(params.queryOffsets + (<usize>b << 2));
  block.kvLength = load<i32>(params.kvLengths + (<usize>b << 2));
  block.slope = alibiSlope(params, b, h);
  block.query = params.query + atQ;
  block.out = params.out + atO;
  block.lse = params.lse + atLse;
  block.key = params.key + atK;
  block.value = params.value + atV;
  block.mask = params.mask + (atMask << maskShift(params));
  block.dOut = gradients.dOut + atO;
  block.dLse = gradients.dLse == 0 ? 0 : gradients.dLse + atLse;
  block.dQuery = gradients.dQuery + atQ;
  block.dKey = gradients.dKey + atK;
  block.dValue = gradients.dValue + atV;
  block.sumsRows = i32(gradients.dMask != 0 || gradients.dSinks != 0);
  block.dMask = gradients.dMask == 0 ? 0 : gradients.dMask + (atMask << 2);
}

/** All that the queries of the block add to the gradients. */
function differentiateBlock(params: AttentionParams, block: Block, dSinks: usize): void {
  const rows = block.rows, d = params.d, dv = params.dv;
  const step = panelBytes(d, dv);
  for (let r = 0, at = block.panels; r < rows; r += NR, at += step) startPanel(params, block, r, at);
  packBlock(rows, d, block.query, <usize>params.queryRow << 2, block.columnsQ);
  packBlock(rows, dv, block.dOut, <usize>params.outRow << 2, block.columnsO);
  const first = firstKey(params, block.position);
  const last = endKey(params, block.position + rows - 1, block.kvLength);
  for (let from = first; from < last;) { // to the end of the block that `from` is in
    const to = min(from - from % BACKWARD_K + BACKWARD_K, last);
    differentiateKeys(params, block, from, to);
    from = to;
  }
  for (let r = 0, at = block.panels; r < rows; r += NR, at += step) closePanel(params, block, dSinks, r, at);
}

/** n columns of the block's rows in panels of 8. */
function packBlock(rows: i32, n: i32, from: usize, rowBytes: usize, to: usize): void {
  for (let c = 0; c < n; c += NR, to += <usize>BLOCK_Q << 5) {
    packColumns(rows, min(NR, n - c), from + (<usize>c << 2), rowBytes, to);
  }
}

/** The keys [k0, k1) against the whole block. */
function differentiateKeys(params: AttentionParams, block: Block, k0: i32, k1: i32): void {
  const d = params.d, dv = params.dv, keys = k1 - k0, rows = block.rows;
  const step = panelBytes(d, dv);
  let live = false, whole = true;
  for (let r = 0, at = block.panels; r < rows; r += NR, at += step) {
    const visible = differentiatePanel(params, block, r, at, k0, k1);
    if (visible != EMPTY) live = true;
    if (visible != FULL) whole = false;
  }
  if (!live) return;
  const rowK = <usize>params.keyRow << 2, rowV = <usize>params.valueRow << 2;
  const key = block.key + <usize>k0 * rowK;
  const dKey = block.dKey + <usize>k0 * rowK, dValue = block.dValue + <usize>k0 * rowV;
  const guarded = !whole && !areOperandsFinite(params, block, keys, key, block.value + <usize>k0 * rowV);
  if (guarded) {
    const rowQ = <usize>params.queryRow << 2, rowO = <usize>params.outRow << 2;
    addGuarded(keys, rows, d, params.scale, block.dTile, block.query, rowQ, dKey, rowK);
    addGuarded(keys, rows, dv, 1, block.tile, block.dOut, rowO, dValue, rowV);
  } else {
    addProduct(keys, rows, d, params.scale, block.dTile, block.columnsQ, dKey, rowK);
    addProduct(keys, rows, dv, 1, block.tile, block.columnsO, dValue, rowV);
  }
  const one = f32x4.splat(1);
  for (let r = 0, at = block.panels; r < rows; r += NR, at += step) {
    const weights = block.dTile + (<usize>r << 2), dQueryT = queryGradientT(at, d, dv);
    if (guarded) guardedPanel(d, keys, key, rowK, weights, TILE_ROW, dQueryT, 32, one, one, true);
    else panel(COLUMNS, RESCALE, d, keys, key, 4, rowK, weights, TILE_ROW, dQueryT, 32, 8, one, one, true, 0);
  }
}

/** Whether nothing that the tiles are multiplied with is NaN or Infinity. */
function areOperandsFinite(params: AttentionParams, block: Block, keys: i32, key: usize, value: usize): bool {
  return allFinite(keys, params.d, key, <usize>params.keyRow << 2)
    && allFinite(keys, params.dv, value, <usize>params.valueRow << 2)
    && allFinite(block.rows, params.d, block.query, <usize>params.queryRow << 2)
    && allFinite(block.rows, params.dv, block.dOut, <usize>params.outRow << 2);
}

/** out[key][0..n) += alpha * tile[key][0..rows) X, X in panels of 8 columns. */
function addProduct(
  keys: i32, rows: i32, n: i32, alpha: f32, tile: usize, columns: usize, out: usize, rowOut: usize,
): void {
  const factor = f32x4.splat(alpha), one = f32x4.splat(1);
  for (let c = 0; c < n; c += NR, columns += <usize>BLOCK_Q << 5, out += 32) {
    panel(ROWS, GEMM, keys, rows, tile, TILE_ROW, 4, columns, 32, out, rowOut, min(NR, n - c), factor, one, true, 0);
  }
}

/** The same with the same bits, by rows of X in place, masked pairs passed over: it is rare. */
function addGuarded(
  keys: i32, rows: i32, n: i32, alpha: f32, tile: usize, x: usize, rowX: usize, out: usize, rowOut: usize,
): void {
  const factor = f32x4.splat(alpha), one = f32x4.splat(1);
  for (let k = 0; k < keys; ++k, tile += TILE_ROW, out += rowOut) {
    for (let c = 0; c < n; c += 4) {
      const at = <usize>c << 2;
      let sum = f32x4.splat(0);
      for (let i: usize = 0; i < <usize>rows; ++i) {
        const weight = tile + (i << 2);
        if (load<i32>(weight) == i32.MIN_VALUE) continue;
        sum = fma(v128.load32_splat(weight), v128.load(x + i * rowX + at), sum);
      }
      sum = fma(one, v128.load(out + at), f32x4.mul(factor, sum));
      if (n - c >= 4) v128.store(out + at, sum);
      else storePartial(out + at, sum, n - c);
    }
  }
}

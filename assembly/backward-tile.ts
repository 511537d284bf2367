// What backward-panel.ts does to its columns of the two tiles, element by element. A tile is [key][BLOCK_Q queries], of
// which one panel of 8 queries has 8 columns: `tile` scores and then weights, `dTile` their gradients.
//
//   bias: s += bias;  cap: s = softcap * tanh(s / softcap);  weigh: P = exp(s - MAX) * FACTOR, dS = P (dP - D);
//   uncap: dS *= 1 - (s / softcap)^2;  clear, remove: -0, the mark of a masked pair (GUARDED in microkernel.ts).
// Reads and writes 32 bytes of each of `keys` rows, TILE_ROW apart in a tile, 32 in `bias` and `capped` (a copy of the
//   capped scores, that capColumns makes). `panel`: statistics, 16-byte aligned. No other scratch.
// Edges: weights below 1e-30 (before FACTOR) are 0; a bias of -Infinity removes by selection, whatever the values; NaN
//   in a pair stays in it. Lanes past the last row mean nothing.
// Accuracy: part of that of the backward (test/attention-backward.test.ts).
import { BLOCK_Q } from "./config";
import { SMALLEST_WEIGHT, expSubMaxPair } from "./exp";
import { RESCALE_BY, ROW_MAX, UNUSED_MAX } from "./online-softmax";
import { capScores } from "./softcap";

/** Bytes of a row of a tile, one float a query. */
@inline export const TILE_ROW: usize = <usize>BLOCK_Q << 2;

// Statistics of a panel, in the place of those of online-softmax.ts.
@inline export const MAX: usize = ROW_MAX; // a weight is exp(score - MAX) * FACTOR
@inline export const FACTOR: usize = RESCALE_BY;
@inline export const DELTA: usize = UNUSED_MAX; // D

/** Both tiles -0, for keys that no query of the panel sees. */
export function clearColumns(keys: i32, tile: usize, dTile: usize): void {
  const removed = f32x4.splat(-0.0);
  for (let k = 0; k < keys; ++k, tile += TILE_ROW, dTile += TILE_ROW) {
    v128.store(tile, removed);
    v128.store(tile, removed, 16);
    v128.store(dTile, removed);
    v128.store(dTile, removed, 16);
  }
}

/** Both tiles -0 where the bias removes the key. */
export function removeColumns(keys: i32, tile: usize, dTile: usize, bias: usize): void {
  const removed = f32x4.splat(-0.0), none = f32x4.splat(-Infinity);
  for (let k = 0; k < keys; ++k, tile += TILE_ROW, dTile += TILE_ROW, bias += 32) {
    const r0 = f32x4.eq(v128.load(bias), none), r1 = f32x4.eq(v128.load(bias, 16), none);
    v128.store(tile, v128.bitselect(removed, v128.load(tile), r0));
    v128.store(tile, v128.bitselect(removed, v128.load(tile, 16), r1), 16);
    v128.store(dTile, v128.bitselect(removed, v128.load(dTile), r0));
    v128.store(dTile, v128.bitselect(removed, v128.load(dTile, 16), r1), 16);
  }
}

/** Scores plus bias. What is removed need not be -Infinity yet: removeColumns follows. */
export function biasColumns(keys: i32, tile: usize, bias: usize): void {
  for (let k = 0; k < keys; ++k, tile += TILE_ROW, bias += 32) {
    v128.store(tile, f32x4.add(v128.load(tile), v128.load(bias)));
    v128.store(tile, f32x4.add(v128.load(tile, 16), v128.load(bias, 16)), 16);
  }
}

/** Caps the scores, and keeps a copy: the derivative asks for them once the weights stand in their place. */
export function capColumns(softcap: f32, keys: i32, tile: usize, capped: usize): void {
  for (let k: usize = 0; k < <usize>keys; ++k) {
    v128.store(capped + (k << 5), v128.load(tile + k * TILE_ROW));
    v128.store(capped + (k << 5), v128.load(tile + k * TILE_ROW, 16), 16);
  }
  capScores(softcap, capped, <usize>keys << 5);
  for (let k: usize = 0; k < <usize>keys; ++k) {
    v128.store(tile + k * TILE_ROW, v128.load(capped + (k << 5)));
    v128.store(tile + k * TILE_ROW, v128.load(capped + (k << 5), 16), 16);
  }
}

/** dS *= 1 - tanh^2, tanh being capped / softcap: as (1 - tanh)(1 + tanh), whose difference is exact near 1. */
export function uncapColumns(softcap: f32, keys: i32, dTile: usize, capped: usize): void {
  const cap = f32x4.splat(softcap), one = f32x4.splat(1);
  for (let k = 0; k < keys; ++k, dTile += TILE_ROW, capped += 32) {
    const t0 = f32x4.div(v128.load(capped), cap), t1 = f32x4.div(v128.load(capped, 16), cap);
    v128.store(dTile, f32x4.mul(v128.load(dTile), f32x4.mul(f32x4.sub(one, t0), f32x4.add(one, t0))));
    v128.store(dTile, f32x4.mul(v128.load(dTile, 16), f32x4.mul(f32x4.sub(one, t1), f32x4.add(one, t1))), 16);
  }
}

/** Scores to weights P, and dP to dS = P (dP - D). */
export function weighColumns(keys: i32, tile: usize, dTile: usize, panel: usize): void {
  const m0 = v128.load(panel + MAX), m1 = v128.load(panel + MAX, 16);
  const f0 = v128.load(panel + FACTOR), f1 = v128.load(panel + FACTOR, 16);
  const d0 = v128.load(panel + DELTA), d1 = v128.load(panel + DELTA, 16);
  for (let k = 0; k < keys; ++k, tile += TILE_ROW, dTile += TILE_ROW) {
    expSubMaxPair(tile, tile, m0, m1, SMALLEST_WEIGHT, false);
    const p0 = f32x4.mul(v128.load(tile), f0), p1 = f32x4.mul(v128.load(tile, 16), f1);
    v128.store(tile, p0);
    v128.store(tile, p1, 16);
    v128.store(dTile, f32x4.mul(p0, f32x4.sub(v128.load(dTile), d0)));
    v128.store(dTile, f32x4.mul(p1, f32x4.sub(v128.load(dTile, 16), d1)), 16);
  }
}

// Which keys a query sees: the only kernel file that knows windows and masks.
//
// Query row i of batch b stands at position i + queryOffsets[b]. It sees key j if
//   j < kvLengths[b],  position - windowLeft <= j <= position + windowRight,  and the mask lets it.
// Where params.alibiSlopes is given, -slope |position - j| is added to the score of every key it sees (ALiBi).
// `firstKey`, `endKey` bound the keys of a run of rows; `firstMixed` is the first of them that needs a tile of bias.
// `maskTile` answers for up to NR rows against [k0, k1):
//   EMPTY no row sees any key; FULL every row sees all, with no bias; PARTIAL then bias[k - k0][0..8) holds what is
//   added to the scores, lanes being rows: -Infinity removes the key, 0 keeps it, another value is mask plus ALiBi.
// Lanes from `count` on (past the last row) repeat the last row. Boolean mask rows are read up to 3 bytes past their
// end, additive ones exactly.
import { AttentionParams, MASK_ADDITIVE, MASK_BOOLEAN, MASK_NONE } from "./params";

@inline export const EMPTY: i32 = 0;
@inline export const PARTIAL: i32 = 1;
@inline export const FULL: i32 = 2;

/** First key that the row at `position` may see. */
@inline
export function firstKey(params: AttentionParams, position: i32): i32 {
  return max(0, position - params.windowLeft);
}

/** One past the last key that the row at `position` may see. */
@inline
export function endKey(params: AttentionParams, position: i32, kvLength: i32): i32 {
  return min(kvLength, position + params.windowRight + 1);
}

/** An offset of elements of the mask, shifted left by this, is one of bytes. */
@inline
export function maskShift(params: AttentionParams): usize {
  return params.maskKind == MASK_ADDITIVE ? 2 : 0;
}

/** ALiBi slope of head h: 0 where there is none. */
export function alibiSlope(params: AttentionParams, b: i32, h: i32): f32 {
  return params.alibiSlopes == 0 ? 0 : f32.load(params.alibiSlopes + (<usize>(b * params.alibiBatch + h) << 2));
}

/**
 * First of the keys [k0, k1) that some of the rows at [position, position + count) may not see, or see with a bias:
 * what lies before needs no tile. Under isCausal alone that leaves the keys past the diagonal of the first row, at most
 * NR - 1 of a panel.
 */
export function firstMixed(params: AttentionParams, slope: f32, position: i32, count: i32, k0: i32, k1: i32): i32 {
  if (params.maskKind != MASK_NONE || slope != 0 || k0 < position + count - 1 - params.windowLeft) return k0;
  return max(k0, min(k1, position + params.windowRight + 1));
}

/** Classifies rows at positions [position, position + count) against keys [k0, k1); fills `bias` if PARTIAL. */
export function maskTile(
  params: AttentionParams, mask: usize, slope: f32, position: i32, count: i32, k0: i32, k1: i32, bias: usize,
): i32 {
  const inside = k0 >= position + count - 1 - params.windowLeft && k1 - 1 <= position + params.windowRight;
  const masked = params.maskKind == MASK_NONE ? FULL : scanMask(params, mask, count, k0, k1);
  if (masked == EMPTY || (masked == FULL && inside && slope == 0)) return masked;
  if (masked == FULL) clearTile(k1 - k0, bias);
  else loadMask(params, mask, count, k0, k1, bias);
  if (slope != 0) addAlibi(slope, position, count, k0, k1, bias);
  if (!inside) applyWindow(params, position, count, k0, k1, bias);
  return classify(k1 - k0, bias);
}

/**
 * The same by the mask alone, and without a tile: PARTIAL as soon as two values differ. Most blocks of a mask are of
 * one value, and this reads them in a tenth of the time.
 */
function scanMask(params: AttentionParams, mask: usize, count: i32, k0: i32, k1: i32): i32 {
  if (params.maskColumn == 0) return PARTIAL;
  let seen = 0; // bit 0: a key is removed, bit 1: a key is seen as it is
  for (let lane = 0; lane < count && seen < 3; ++lane) {
    const row = mask + maskRowOffset(params, lane, count);
    if (params.maskKind == MASK_BOOLEAN) seen |= scanBytes(row + k0, row + k1);
    else seen |= scanFloats(row + (<usize>k0 << 2), row + (<usize>k1 << 2));
  }
  return seen == 1 ? EMPTY : seen == 2 ? FULL : PARTIAL;
}

function scanBytes(p: usize, end: usize): i32 {
  let seen = 0;
  for (; p + 16 <= end && seen < 3; p += 16) {
    const v = v128.load(p);
    seen |= (i8x16.all_true(v) ? 0 : 1) | (v128.any_true(v) ? 2 : 0);
  }
  for (; p < end && seen < 3; ++p) seen |= load<u8>(p) == 0 ? 1 : 2;
  return seen;
}

/** A value other than 0 and -Infinity counts as both. */
function scanFloats(p: usize, end: usize): i32 {
  const removed = f32x4.splat(-Infinity), zero = f32x4.splat(0);
  let seen = 0;
  for (; p + 16 <= end && seen < 3; p += 16) {
    const v = v128.load(p);
    seen |= (i32x4.all_true(f32x4.eq(v, zero)) ? 0 : 1) | (i32x4.all_true(f32x4.eq(v, removed)) ? 0 : 2);
  }
  for (; p < end && seen < 3; p += 4) {
    const v = f32.load(p);
    seen |= (v == 0 ? 0 : 1) | (v == -Infinity ? 0 : 2);
  }
  return seen;
}

function clearTile(keys: i32, bias: usize): void {
  memory.fill(bias, 0, <usize>keys << 5);
}

/** Row `lane` of the mask, in bytes; lanes past the last row repeat it. */
@inline
function maskRowOffset(params: AttentionParams, lane: i32, count: i32): usize {
  return (<usize>min(lane, count - 1) * params.maskRow) << maskShift(params);
}

/** Copies the mask of 8 rows, transposed, into the tile. */
function loadMask(params: AttentionParams, mask: usize, count: i32, k0: i32, k1: i32, bias: usize): void {
  const start = mask + ((<usize>k0 * params.maskColumn) << maskShift(params));
  for (let half = 0; half < 8; half += 4) {
    const r0 = start + maskRowOffset(params, half, count);
    const r1 = start + maskRowOffset(params, half + 1, count);
    const r2 = start + maskRowOffset(params, half + 2, count);
    const r3 = start + maskRowOffset(params, half + 3, count);
    const to = bias + (<usize>half << 2);
    if (params.maskColumn == 0) repeatColumn(params.maskKind, r0, r1, r2, r3, k1 - k0, to);
    else if (params.maskKind == MASK_BOOLEAN) transposeBoolean(r0, r1, r2, r3, k1 - k0, to);
    else transposeAdditive(r0, r1, r2, r3, k1 - k0, to);
  }
}

/** Bias of one element whatever its kind. */
@inline
function biasOf(maskKind: i32, p: usize): f32 {
  if (maskKind == MASK_ADDITIVE) return f32.load(p);
  return load<u8>(p) != 0 ? 0 : -Infinity;
}

/** A mask that is broadcast over the keys. */
function repeatColumn(maskKind: i32, r0: usize, r1: usize, r2: usize, r3: usize, keys: i32, to: usize): void {
  let v = f32x4.splat(biasOf(maskKind, r0));
  v = f32x4.replace_lane(v, 1, biasOf(maskKind, r1));
  v = f32x4.replace_lane(v, 2, biasOf(maskKind, r2));
  v = f32x4.replace_lane(v, 3, biasOf(maskKind, r3));
  for (let k = 0; k < keys; ++k, to += 32) v128.store(to, v);
}

/** -Infinity in the lanes whose byte of the 4 x 4 block is 0. */
@inline
function biasOfBytes(zeroBytes: v128): v128 {
  const lanes = i32x4.extend_low_i16x8_s(i16x8.extend_low_i8x16_s(zeroBytes));
  return v128.and(lanes, f32x4.splat(-Infinity));
}

function transposeBoolean(r0: usize, r1: usize, r2: usize, r3: usize, keys: i32, to: usize): void {
  for (let k = 0; k < keys; k += 4, to += 128) {
    const at = <usize>k;
    let block = v128.load32_zero(r0 + at);
    block = v128.load32_lane(r1 + at, block, 1);
    block = v128.load32_lane(r2 + at, block, 2);
    block = v128.load32_lane(r3 + at, block, 3);
    const zero = i8x16.eq(block, i8x16.splat(0));
    const byKey = i8x16.shuffle(zero, zero, 0, 4, 8, 12, 1, 5, 9, 13, 2, 6, 10, 14, 3, 7, 11, 15);
    v128.store(to, biasOfBytes(byKey));
    if (k + 1 < keys) v128.store(to, biasOfBytes(i32x4.shuffle(byKey, byKey, 1, 1, 1, 1)), 32);
    if (k + 2 < keys) v128.store(to, biasOfBytes(i32x4.shuffle(byKey, byKey, 2, 2, 2, 2)), 64);
    if (k + 3 < keys) v128.store(to, biasOfBytes(i32x4.shuffle(byKey, byKey, 3, 3, 3, 3)), 96);
  }
}

function transposeAdditive(r0: usize, r1: usize, r2: usize, r3: usize, keys: i32, to: usize): void {
  for (let k = 0; k < keys; ++k, to += 32) {
    const at = <usize>k << 2;
    let v = v128.load32_zero(r0 + at);
    v = v128.load32_lane(r1 + at, v, 1);
    v = v128.load32_lane(r2 + at, v, 2);
    v = v128.load32_lane(r3 + at, v, 3);
    v128.store(to, v);
  }
}

/** Positions of lanes 0..4 of the rows that start at `position`, the last repeated. */
@inline
function lanePositions(position: i32, count: i32): v128 {
  return i32x4.min_s(i32x4.add(i32x4.splat(position), i32x4(0, 1, 2, 3)), i32x4.splat(position + count - 1));
}

/** Adds -slope |position - j|, absolute positions, so that partial results over other keys have the same bias. */
function addAlibi(slope: f32, position: i32, count: i32, k0: i32, k1: i32, bias: usize): void {
  const p0 = lanePositions(position, count), p1 = lanePositions(position + 4, count - 4);
  const factor = f32x4.splat(-slope);
  for (let k = k0; k < k1; ++k, bias += 32) {
    const j = i32x4.splat(k);
    const d0 = f32x4.convert_i32x4_s(i32x4.abs(i32x4.sub(p0, j)));
    const d1 = f32x4.convert_i32x4_s(i32x4.abs(i32x4.sub(p1, j)));
    v128.store(bias, f32x4.add(v128.load(bias), f32x4.mul(factor, d0)));
    v128.store(bias, f32x4.add(v128.load(bias, 16), f32x4.mul(factor, d1)), 16);
  }
}

/** Removes the keys outside each row's window. */
function applyWindow(params: AttentionParams, position: i32, count: i32, k0: i32, k1: i32, bias: usize): void {
  const p0 = lanePositions(position, count), p1 = lanePositions(position + 4, count - 4);
  const left = i32x4.splat(params.windowLeft), right = i32x4.splat(params.windowRight);
  const low0 = i32x4.sub(p0, left), low1 = i32x4.sub(p1, left);
  const high0 = i32x4.add(p0, right), high1 = i32x4.add(p1, right);
  const removed = f32x4.splat(-Infinity);
  for (let k = k0; k < k1; ++k, bias += 32) {
    const j = i32x4.splat(k);
    const sees0 = v128.and(i32x4.ge_s(j, low0), i32x4.le_s(j, high0));
    const sees1 = v128.and(i32x4.ge_s(j, low1), i32x4.le_s(j, high1));
    v128.store(bias, v128.bitselect(v128.load(bias), removed, sees0));
    v128.store(bias, v128.bitselect(v128.load(bias, 16), removed, sees1), 16);
  }
}

/** EMPTY if all is -Infinity, FULL if all is 0. */
function classify(keys: i32, bias: usize): i32 {
  const removed = f32x4.splat(-Infinity), zero = f32x4.splat(0);
  let live = i32x4.splat(0), biased = i32x4.splat(0);
  for (let k = 0; k < keys; ++k, bias += 32) {
    const b0 = v128.load(bias), b1 = v128.load(bias, 16);
    live = v128.or(live, v128.or(f32x4.ne(b0, removed), f32x4.ne(b1, removed)));
    biased = v128.or(biased, v128.or(f32x4.ne(b0, zero), f32x4.ne(b1, zero)));
  }
  if (!v128.any_true(live)) return EMPTY;
  return v128.any_true(biased) ? PARTIAL : FULL;
}

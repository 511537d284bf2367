// Dropout of attention weights: which of them are dropped, from a counter and a seed alone, so that neither tiling nor
// threads change it and the backward finds the same again.
//
// Philox 4x32-10 (Salmon et al. 2011, "Parallel random numbers: as easy as 1, 2, 3"): four random words for the counter
// (floor(j / 4), i, b * numHeads + h, 0), key = the seed; the weight of query i and key j takes word j mod 4. It is
// dropped where the word is below dropoutP * 2^32, and else multiplied by 1 / (1 - dropoutP), as in torch.
// Lanes are queries: one vector run of the generator serves 4 queries and 4 keys.
// Reads params alone. Writes tile[j - j0][0..count) = 0 or the factor for j in [j0, j1) and the queries [i, i + count),
//   count <= 8, by vectors of 4: where count <= 4 the other 4 of the 8 lanes stay as they are. An empty range writes
//   nothing. No scratch.
// Edges: dropWeights keeps NaN, and the -0 of a masked key.
// Which are dropped is exact, the same in every build (test/dropout.test.ts, against known answers of Philox).
import { AttentionParams } from "./params";

@inline const M0: u32 = 0xD2511F53;
@inline const M1: u32 = 0xCD9E8D57;
@inline const WEYL0: u32 = 0x9E3779B9;
@inline const WEYL1: u32 = 0xBB67AE85;

export function dropTile(
  params: AttentionParams, b: i32, h: i32, i: i32, count: i32, j0: i32, j1: i32, tile: usize,
): void {
  const bh = b * params.numHeads + h;
  for (let group = j0 >> 2; group << 2 < j1; ++group) {
    for (let half = 0; half < count; half += 4) {
      dropSquare(params, bh, i + half, group, j0, j1, tile + (<usize>half << 2));
    }
  }
}

/** Low (`high` false) or high words of the lanes of v times m. */
@inline
function multiplyWords(v: v128, m: v128, high: bool): v128 {
  const p0 = i64x2.extmul_low_i32x4_u(v, m), p1 = i64x2.extmul_high_i32x4_u(v, m);
  return high ? i32x4.shuffle(p0, p1, 1, 3, 5, 7) : i32x4.shuffle(p0, p1, 0, 2, 4, 6);
}

/** Four queries from i on, the keys of one group of four that lie in [j0, j1). */
function dropSquare(params: AttentionParams, bh: i32, i: i32, group: i32, j0: i32, j1: i32, tile: usize): void {
  const m0 = i32x4.splat(M0), m1 = i32x4.splat(M1);
  let c0 = i32x4.splat(group), c1 = i32x4.add(i32x4.splat(i), i32x4(0, 1, 2, 3));
  let c2 = i32x4.splat(bh), c3 = i32x4.splat(0);
  let k0 = params.seedLow, k1 = params.seedHigh;
  for (let round = 0; round < 10; ++round) {
    const high0 = multiplyWords(c0, m0, true), low0 = multiplyWords(c0, m0, false);
    const high1 = multiplyWords(c2, m1, true), low1 = multiplyWords(c2, m1, false);
    c0 = v128.xor(v128.xor(high1, c1), i32x4.splat(k0));
    c1 = low1;
    c2 = v128.xor(v128.xor(high0, c3), i32x4.splat(k1));
    c3 = low0;
    k0 += WEYL0;
    k1 += WEYL1;
  }
  const below = i32x4.splat(params.dropoutBelow), factor = f32x4.splat(params.dropoutScale);
  const j = group << 2;
  storeKept(j, j0, j1, c0, below, factor, tile);
  storeKept(j + 1, j0, j1, c1, below, factor, tile);
  storeKept(j + 2, j0, j1, c2, below, factor, tile);
  storeKept(j + 3, j0, j1, c3, below, factor, tile);
}

@inline
function storeKept(j: i32, j0: i32, j1: i32, words: v128, below: v128, factor: v128, tile: usize): void {
  if (j < j0 || j >= j1) return;
  v128.store(tile + (<usize>(j - j0) << 5), v128.andnot(factor, i32x4.lt_u(words, below)));
}

/** Multiplies `keys` rows of 8 weights, `rowBytes` apart, by the tile. */
export function dropWeights(keys: i32, weights: usize, rowBytes: usize, tile: usize): void {
  for (let k = 0; k < keys; ++k, weights += rowBytes, tile += 32) {
    v128.store(weights, f32x4.mul(v128.load(weights), v128.load(tile)));
    v128.store(weights, f32x4.mul(v128.load(weights, 16), v128.load(tile, 16)), 16);
  }
}

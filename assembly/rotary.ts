// Rotary position embedding: pairs of a row turned by the angles of its position (Su et al. 2021, RoFormer).
//
//   real = cos x1 - sin x2,  imaginary = sin x1 + cos x2
// x, y: rows of d floats, contiguous; y may be x. Pair j of `half` is (x_j, x_{half + j}), interleaved
//   (x_{2j}, x_{2j+1}); elements from 2 half on pass through.
// cos, sin: rows of `half` floats. Row r of x belongs to token (r / inner) % length of batch entry r / rows, and reads
//   the row of cos and sin that positions[batch entry * positionBatch + token] names, an int32.
// Work range [begin, end): rows of x. Reads x, where interleaved, up to 24 bytes past its end (READ_SLACK), the rest
//   exactly; writes y exactly. No scratch.
// Edges: half = 0 copies; NaN and Infinity stay in their pair; elements that pass through keep their bits.
// Accuracy: each product and sum is rounded, none fused, so every build has the bits of plain float32
//   (test/rotary.test.ts).
import { loadGroup, storeGroup } from "./simd";

@inline
function real(c: v128, s: v128, x1: v128, x2: v128): v128 {
  return f32x4.sub(f32x4.mul(c, x1), f32x4.mul(s, x2));
}

@inline
function imaginary(c: v128, s: v128, x1: v128, x2: v128): v128 {
  return f32x4.add(f32x4.mul(s, x1), f32x4.mul(c, x2));
}

/** Up to four pairs (x_j, x_{half + j}). */
@inline
function turnHalves(count: i32, offset: usize, x: usize, cos: usize, sin: usize, y: usize): void {
  const c = loadGroup(cos, count), s = loadGroup(sin, count);
  const x1 = loadGroup(x, count), x2 = loadGroup(x + offset, count);
  storeGroup(y, real(c, s, x1, x2), count);
  storeGroup(y + offset, imaginary(c, s, x1, x2), count);
}

/** Up to four pairs (x_{2j}, x_{2j+1}). Both vectors are loaded whole, at most 24 bytes past the last pair. */
@inline
function turnPairs(count: i32, x: usize, cos: usize, sin: usize, y: usize): void {
  const c = loadGroup(cos, count), s = loadGroup(sin, count);
  const a = v128.load(x), b = v128.load(x, 16);
  const x1 = i32x4.shuffle(a, b, 0, 2, 4, 6), x2 = i32x4.shuffle(a, b, 1, 3, 5, 7);
  const y1 = real(c, s, x1, x2), y2 = imaginary(c, s, x1, x2);
  storeGroup(y, i32x4.shuffle(y1, y2, 0, 4, 1, 5), min(4, 2 * count));
  if (count > 2) storeGroup(y + 16, i32x4.shuffle(y1, y2, 2, 6, 3, 7), 2 * count - 4);
}

function turnRowPairs(half: i32, x: usize, cos: usize, sin: usize, y: usize): void {
  let j = 0;
  for (; j + 4 <= half; j += 4, x += 32, cos += 16, sin += 16, y += 32) turnPairs(4, x, cos, sin, y);
  if (j < half) turnPairs(half - j, x, cos, sin, y);
}

function turnRowHalves(half: i32, x: usize, cos: usize, sin: usize, y: usize): void {
  const offset = <usize>half << 2;
  let j = 0;
  for (; j + 4 <= half; j += 4, x += 16, cos += 16, sin += 16, y += 16) turnHalves(4, offset, x, cos, sin, y);
  if (j < half) turnHalves(half - j, offset, x, cos, sin, y);
}

export function rotary(
  interleaved: i32, inner: i32, length: i32, rows: i32, d: i32, half: i32, x: usize, cos: usize, sin: usize,
  positions: usize, positionBatch: i32, y: usize, begin: i32, end: i32,
): void {
  assert(0 <= begin && begin <= end, "rotary: work range");
  assert(0 <= half && 2 * half <= d, "rotary: half");
  const turned = <usize>half << 3, stride = <usize>d << 2;
  x += <usize>begin * stride;
  y += <usize>begin * stride;
  for (let r = begin; r < end; ++r, x += stride, y += stride) {
    const token = (r / rows) * positionBatch + (r / inner) % length;
    const at = <usize>i32.load(positions + (<usize>token << 2)) * (turned >> 1);
    if (interleaved != 0) turnRowPairs(half, x, cos + at, sin + at, y);
    else turnRowHalves(half, x, cos + at, sin + at, y);
    if (x != y) memory.copy(y + turned, x + turned, stride - turned);
  }
}

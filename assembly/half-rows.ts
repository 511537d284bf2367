// few-rows.ts over float16 rows of B that hold no Infinity, no NaN and few subnormals, where they stand.
//
// A half, its fields moved into place, is a float32 2^-112 times too small. It is left so: A comes in 2^112 times too
// large (REBIAS), and every product has the bits that it has over B as float32.
//   dotHalfRows: c[j] = sum over p of A(i, p) B(j, p).   addHalfRows: c[j] += sum over p of A(i, p) B(p, j).
// A: m rows of float32, contiguous. B: rows rowB bytes apart, their width a multiple of 8 and their number one of
// DOT_ROWS or ADD_ROWS: no vector is cut, no row left over. C: as in few-rows.ts. Reads exactly; no scratch. Order as
// there.
// Accuracy: the bits over the same rows as float32 (test/float16.test.ts for every finite half, and for their sums
// test/key-value-cache.test.ts).
import { firstFloats, lastFloats } from "./float16";
import { fma } from "./simd";

@inline export const DOT_ROWS: i32 = 16;
@inline export const ADD_ROWS: i32 = 4;

/** Lanes whose sign and upper half of a float32 come from a half shifted right by 3. */
@inline
function topMask(): v128 {
  return i16x8.splat(<i16>0x8fff);
}

/** Lower 16 bits of the float32 whose fields are those of a half. */
@inline
function bottomOf(halves: v128): v128 {
  return i16x8.shl(halves, 13);
}

@inline
function topOf(halves: v128, mask: v128): v128 {
  return v128.and(i16x8.shr_s(halves, 3), mask);
}

/** s + a(0) * the first four of eight halves + a(1) * the last four, all 2^-112 times too small. */
@inline
function addPair(a: usize, halves: v128, mask: v128, s: v128): v128 {
  const bottom = bottomOf(halves), top = topOf(halves, mask);
  s = fma(v128.load32_splat(a), firstFloats(bottom, top), s);
  return fma(v128.load32_splat(a, 4), lastFloats(bottom, top), s);
}

/** Adds four elements of a row of A times those of four rows of B, which are transposed as halves. */
@inline
function dotFour(a: usize, b: usize, r1: usize, r2: usize, r3: usize, mask: v128, s: v128): v128 {
  const v01 = i16x8.shuffle(v128.load64_zero(b), v128.load64_zero(b + r1), 0, 8, 1, 9, 2, 10, 3, 11);
  const v23 = i16x8.shuffle(v128.load64_zero(b + r2), v128.load64_zero(b + r3), 0, 8, 1, 9, 2, 10, 3, 11);
  s = addPair(a, i32x4.shuffle(v01, v23, 0, 4, 1, 5), mask, s);
  return addPair(a + 8, i32x4.shuffle(v01, v23, 2, 6, 3, 7), mask, s);
}

/** One row of A against 16 rows of B: four chains of multiply-adds, since one waits four cycles for itself. */
function dotSixteen(k: i32, a: usize, b: usize, rowB: usize, c: usize): void {
  const r1 = rowB, r2 = rowB << 1, r3 = r1 + r2, group = rowB << 2, mask = topMask();
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  for (const end = a + (<usize>k << 2); a < end; a += 16, b += 8) {
    s0 = dotFour(a, b, r1, r2, r3, mask, s0);
    s1 = dotFour(a, b + group, r1, r2, r3, mask, s1);
    s2 = dotFour(a, b + 2 * group, r1, r2, r3, mask, s2);
    s3 = dotFour(a, b + 3 * group, r1, r2, r3, mask, s3);
  }
  v128.store(c, s0);
  v128.store(c, s1, 16);
  v128.store(c, s2, 32);
  v128.store(c, s3, 48);
}

export function dotHalfRows(
  m: i32, n: i32, k: i32, a: usize, rowA: usize, b: usize, rowB: usize, c: usize, rowC: usize,
): void {
  assert((k & 7) == 0 && n % DOT_ROWS == 0, "dotHalfRows: k must be a multiple of 8, n of DOT_ROWS");
  for (let i = 0; i < m; ++i, a += rowA, c += rowC) {
    for (let j = 0; j < n; j += DOT_ROWS) dotSixteen(k, a, b + <usize>j * rowB, rowB, c + (<usize>j << 2));
  }
}

/** c += a(0..4) * four rows of B. */
function addFourHalves(n: i32, a: usize, b: usize, rowB: usize, c: usize): void {
  const x0 = v128.load32_splat(a), x1 = v128.load32_splat(a, 4);
  const x2 = v128.load32_splat(a, 8), x3 = v128.load32_splat(a, 12);
  const mask = topMask(), b3 = 3 * rowB;
  for (const end = c + (<usize>n << 2); c < end; c += 32, b += 16) {
    let s0 = v128.load(c), s1 = v128.load(c, 16), v = v128.load(b);
    let bottom = bottomOf(v), top = topOf(v, mask);
    s0 = fma(x0, firstFloats(bottom, top), s0);
    s1 = fma(x0, lastFloats(bottom, top), s1);
    v = v128.load(b + rowB);
    bottom = bottomOf(v);
    top = topOf(v, mask);
    s0 = fma(x1, firstFloats(bottom, top), s0);
    s1 = fma(x1, lastFloats(bottom, top), s1);
    v = v128.load(b + 2 * rowB);
    bottom = bottomOf(v);
    top = topOf(v, mask);
    s0 = fma(x2, firstFloats(bottom, top), s0);
    s1 = fma(x2, lastFloats(bottom, top), s1);
    v = v128.load(b + b3);
    bottom = bottomOf(v);
    top = topOf(v, mask);
    v128.store(c, fma(x3, firstFloats(bottom, top), s0));
    v128.store(c, fma(x3, lastFloats(bottom, top), s1), 16);
  }
}

export function addHalfRows(
  m: i32, n: i32, k: i32, a: usize, rowA: usize, b: usize, rowB: usize, c: usize, rowC: usize,
): void {
  assert((n & 7) == 0 && k % ADD_ROWS == 0, "addHalfRows: n must be a multiple of 8, k of ADD_ROWS");
  for (let p = 0; p < k; p += ADD_ROWS, a += ADD_ROWS << 2, b += ADD_ROWS * rowB) {
    for (let i = 0; i < m; ++i) addFourHalves(n, a + <usize>i * rowA, b, rowB, c + <usize>i * rowC);
  }
}

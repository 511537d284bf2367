// C = A op(B) for few rows of A, where reading B is the cost: one pass over B where it stands, nothing packed.
//
// A: m rows of k, element (i, p) at a + i * rowA + p * stepA bytes. C: m rows of n, c + i * rowC bytes, rowC a multiple
// of 16 with room for n rounded up to 8: lanes past n are written with what lies past B, and mean nothing.
//   streamRows (addRows: C +=): B(p, j) at b + p * rowB + 4 j, rows contiguous. Four rows of B at a time are added into
//     C, which stays in cache, so B is read in long sequential runs (a tile would walk down columns, a cache line for
//     8 floats).
//   dotRows: B(p, j) at b + j * rowB + 4 p, op(B) a transpose (scores Q K^T, weights stored [out, in]). Four rows of B
//     are transposed in registers, so that lanes are columns of C. A's rows are contiguous (stepA = 4). Four rows of A
//     share eight of B; one alone walks down the four quarters of B's rows at once.
// Reads B up to READ_SLACK past its end. n = 0, m = 0 and k = 0 (C = 0) are fine. No scratch.
// Order: p ascending from 0, one multiply-add each, so every element has the bits that a micro-kernel tile gives it.
import { TOUCH_ROWS } from "./config";
import { fma } from "./simd";

@inline
export function zeroRows(m: i32, n: i32, c: usize, rowC: usize): void {
  const zero = f32x4.splat(0);
  for (let i = 0; i < m; ++i, c += rowC) {
    for (let j: usize = 0; j < <usize>((n + 7) & ~7) << 2; j += 16) v128.store(c + j, zero);
  }
}

/** c += a(0..4) * four rows of B. */
function addFour(n: i32, a: usize, stepA: usize, b: usize, rowB: usize, c: usize): void {
  const x0 = v128.load32_splat(a), x1 = v128.load32_splat(a + stepA);
  const x2 = v128.load32_splat(a + 2 * stepA), x3 = v128.load32_splat(a + 3 * stepA);
  const end = c + (<usize>n << 2);
  let b1 = b + rowB, b2 = b1 + rowB, b3 = b2 + rowB;
  for (; c + 16 < end; c += 32) {
    let s0 = fma(x0, v128.load(b), v128.load(c)), s1 = fma(x0, v128.load(b, 16), v128.load(c, 16));
    s0 = fma(x1, v128.load(b1), s0);
    s1 = fma(x1, v128.load(b1, 16), s1);
    s0 = fma(x2, v128.load(b2), s0);
    s1 = fma(x2, v128.load(b2, 16), s1);
    v128.store(c, fma(x3, v128.load(b3), s0));
    v128.store(c, fma(x3, v128.load(b3, 16), s1), 16);
    b += 32;
    b1 += 32;
    b2 += 32;
    b3 += 32;
  }
  if (c < end) {
    const s = fma(x1, v128.load(b1), fma(x0, v128.load(b), v128.load(c)));
    v128.store(c, fma(x3, v128.load(b3), fma(x2, v128.load(b2), s)));
  }
}

/** The same for two rows of C: half the loads of B. */
function addFourTwice(n: i32, a: usize, rowA: usize, stepA: usize, b: usize, rowB: usize, c: usize, rowC: usize): void {
  const x0 = v128.load32_splat(a), x1 = v128.load32_splat(a + stepA);
  const x2 = v128.load32_splat(a + 2 * stepA), x3 = v128.load32_splat(a + 3 * stepA);
  a += rowA;
  const y0 = v128.load32_splat(a), y1 = v128.load32_splat(a + stepA);
  const y2 = v128.load32_splat(a + 2 * stepA), y3 = v128.load32_splat(a + 3 * stepA);
  const end = c + (<usize>n << 2);
  let d = c + rowC, b1 = b + rowB, b2 = b1 + rowB, b3 = b2 + rowB;
  for (; c < end; c += 32, d += 32) {
    let v = v128.load(b), w = v128.load(b, 16);
    let s0 = fma(x0, v, v128.load(c)), s1 = fma(y0, v, v128.load(d));
    let s2 = fma(x0, w, v128.load(c, 16)), s3 = fma(y0, w, v128.load(d, 16));
    v = v128.load(b1);
    w = v128.load(b1, 16);
    s0 = fma(x1, v, s0);
    s1 = fma(y1, v, s1);
    s2 = fma(x1, w, s2);
    s3 = fma(y1, w, s3);
    v = v128.load(b2);
    w = v128.load(b2, 16);
    s0 = fma(x2, v, s0);
    s1 = fma(y2, v, s1);
    s2 = fma(x2, w, s2);
    s3 = fma(y2, w, s3);
    v = v128.load(b3);
    w = v128.load(b3, 16);
    v128.store(c, fma(x3, v, s0));
    v128.store(d, fma(y3, v, s1));
    v128.store(c, fma(x3, w, s2), 16);
    v128.store(d, fma(y3, w, s3), 16);
    b += 32;
    b1 += 32;
    b2 += 32;
    b3 += 32;
  }
}

/** c += a * one row of B. */
function addOne(n: i32, a: usize, b: usize, c: usize): void {
  const x = v128.load32_splat(a);
  for (const end = c + (<usize>n << 2); c < end; c += 16, b += 16) v128.store(c, fma(x, v128.load(b), v128.load(c)));
}

export function streamRows(
  m: i32, n: i32, k: i32, a: usize, rowA: usize, stepA: usize, b: usize, rowB: usize, c: usize, rowC: usize,
): void {
  zeroRows(m, n, c, rowC);
  addRows(m, n, k, a, rowA, stepA, b, rowB, c, rowC);
}

/**
 * c += A B: what streamRows does to sums that have begun. The first two lines of the row TOUCH_ROWS ahead are read for
 * the cache alone: the prefetcher stops at the end of a page, and so it begins with the next in time.
 */
export function addRows(
  m: i32, n: i32, k: i32, a: usize, rowA: usize, stepA: usize, b: usize, rowB: usize, c: usize, rowC: usize,
): void {
  const touched = n >= 32 ? k - TOUCH_ROWS : 0; // a row of fewer is no two lines
  let p = 0;
  for (; p + 4 <= k; p += 4, a += 4 * stepA, b += 4 * rowB) {
    if (p < touched) {
      const ahead = b + <usize>TOUCH_ROWS * rowB;
      load<i32>(ahead);
      load<i32>(ahead, 64);
    }
    let i = 0;
    for (; i + 2 <= m; i += 2) addFourTwice(n, a + <usize>i * rowA, rowA, stepA, b, rowB, c + <usize>i * rowC, rowC);
    if (i < m) addFour(n, a + <usize>i * rowA, stepA, b, rowB, c + <usize>i * rowC);
  }
  for (; p < k; ++p, a += stepA, b += rowB) {
    for (let i = 0; i < m; ++i) addOne(n, a + <usize>i * rowA, b, c + <usize>i * rowC);
  }
}

/** Elements p..p+4 of one row of A times four columns of C, transposed to t0..t3, added to their sums in order of p. */
@inline
function addColumns(a: usize, t0: v128, t1: v128, t2: v128, t3: v128, sum: v128): v128 {
  sum = fma(v128.load32_splat(a), t0, sum);
  sum = fma(v128.load32_splat(a, 4), t1, sum);
  sum = fma(v128.load32_splat(a, 8), t2, sum);
  return fma(v128.load32_splat(a, 12), t3, sum);
}

/** addColumns for the rows of B at b, b + r1, b + r2, b + r3, transposed in registers. */
@inline
function addDots(a: usize, b: usize, r1: usize, r2: usize, r3: usize, sum: v128): v128 {
  const v0 = v128.load(b), v1 = v128.load(b + r1), v2 = v128.load(b + r2), v3 = v128.load(b + r3);
  let lo = i32x4.shuffle(v0, v1, 0, 4, 1, 5), hi = i32x4.shuffle(v2, v3, 0, 4, 1, 5);
  const t0 = i64x2.shuffle(lo, hi, 0, 2), t1 = i64x2.shuffle(lo, hi, 1, 3);
  lo = i32x4.shuffle(v0, v1, 2, 6, 3, 7);
  hi = i32x4.shuffle(v2, v3, 2, 6, 3, 7);
  return addColumns(a, t0, t1, i64x2.shuffle(lo, hi, 0, 2), i64x2.shuffle(lo, hi, 1, 3), sum);
}

/** One element of each of the rows b, b + r1, b + r2, b + r3. */
@inline
function gather(b: usize, r1: usize, r2: usize, r3: usize): v128 {
  let v = v128.load32_zero(b);
  v = v128.load32_lane(b + r1, v, 1);
  v = v128.load32_lane(b + r2, v, 2);
  return v128.load32_lane(b + r3, v, 3);
}

/**
 * One row of A against `groups` (1 or 4, a literal) times four rows of B: four columns of C for each. Rows of B within
 * a group are r1, r2, r3 bytes from its first, groups `groupB` bytes from each other, their columns `groupC` bytes.
 * Groups far apart are as many streams for the prefetcher: 3 to 8 % less time from L3 and memory than 16 rows side by
 * side. Four chains of multiply-adds in place of two: 14 % less from L2.
 */
@inline
function dotsOfOne(
  groups: i32, k: i32, a: usize, b: usize, r1: usize, r2: usize, r3: usize, groupB: usize, c: usize, groupC: usize,
): void {
  let s0 = f32x4.splat(0), s1 = s0, s2 = s0, s3 = s0;
  let b1 = b + groupB, b2 = b1 + groupB, b3 = b2 + groupB;
  let p = k;
  for (; p >= 4; p -= 4, a += 16, b += 16) {
    s0 = addDots(a, b, r1, r2, r3, s0);
    if (groups > 1) {
      s1 = addDots(a, b1, r1, r2, r3, s1); b1 += 16;
      s2 = addDots(a, b2, r1, r2, r3, s2); b2 += 16;
      s3 = addDots(a, b3, r1, r2, r3, s3); b3 += 16;
    }
  }
  for (; p > 0; --p, a += 4, b += 4) {
    const x = v128.load32_splat(a);
    s0 = fma(x, gather(b, r1, r2, r3), s0);
    if (groups > 1) {
      s1 = fma(x, gather(b1, r1, r2, r3), s1); b1 += 4;
      s2 = fma(x, gather(b2, r1, r2, r3), s2); b2 += 4;
      s3 = fma(x, gather(b3, r1, r2, r3), s3); b3 += 4;
    }
  }
  v128.store(c, s0);
  if (groups > 1) {
    v128.store(c += groupC, s1);
    v128.store(c += groupC, s2);
    v128.store(c + groupC, s3);
  }
}

/** Four rows of A against eight of B, which are transposed once for all of them: eight chains of multiply-adds. */
function dotsOfFour(k: i32, a: usize, rowA: usize, b: usize, rowB: usize, c: usize, rowC: usize): void {
  let s00 = f32x4.splat(0), s01 = s00;
  let s10 = s00, s11 = s00, s20 = s00, s21 = s00, s30 = s00, s31 = s00;
  const r1 = rowB, r2 = rowB << 1, r3 = r1 + r2, group = rowB << 2;
  const a1 = rowA, a2 = rowA << 1, a3 = a1 + a2;
  let v0 = s00, v1 = s00, v2 = s00, v3 = s00, lo: v128, hi: v128, t0: v128, t1: v128, t2: v128, t3: v128, g: usize;
  let p = k;
  for (; p >= 4; p -= 4, a += 16, b += 16) {
    v0 = v128.load(b); v1 = v128.load(b + r1); v2 = v128.load(b + r2); v3 = v128.load(b + r3);
    lo = i32x4.shuffle(v0, v1, 0, 4, 1, 5); hi = i32x4.shuffle(v2, v3, 0, 4, 1, 5);
    t0 = i64x2.shuffle(lo, hi, 0, 2); t1 = i64x2.shuffle(lo, hi, 1, 3);
    lo = i32x4.shuffle(v0, v1, 2, 6, 3, 7); hi = i32x4.shuffle(v2, v3, 2, 6, 3, 7);
    t2 = i64x2.shuffle(lo, hi, 0, 2); t3 = i64x2.shuffle(lo, hi, 1, 3);
    s00 = addColumns(a, t0, t1, t2, t3, s00);
    s10 = addColumns(a + a1, t0, t1, t2, t3, s10);
    s20 = addColumns(a + a2, t0, t1, t2, t3, s20);
    s30 = addColumns(a + a3, t0, t1, t2, t3, s30);
    g = b + group;
    v0 = v128.load(g); v1 = v128.load(g + r1); v2 = v128.load(g + r2); v3 = v128.load(g + r3);
    lo = i32x4.shuffle(v0, v1, 0, 4, 1, 5); hi = i32x4.shuffle(v2, v3, 0, 4, 1, 5);
    t0 = i64x2.shuffle(lo, hi, 0, 2); t1 = i64x2.shuffle(lo, hi, 1, 3);
    lo = i32x4.shuffle(v0, v1, 2, 6, 3, 7); hi = i32x4.shuffle(v2, v3, 2, 6, 3, 7);
    t2 = i64x2.shuffle(lo, hi, 0, 2); t3 = i64x2.shuffle(lo, hi, 1, 3);
    s01 = addColumns(a, t0, t1, t2, t3, s01);
    s11 = addColumns(a + a1, t0, t1, t2, t3, s11);
    s21 = addColumns(a + a2, t0, t1, t2, t3, s21);
    s31 = addColumns(a + a3, t0, t1, t2, t3, s31);
  }
  for (; p > 0; --p, a += 4, b += 4) {
    v0 = gather(b, r1, r2, r3);
    v1 = gather(b + group, r1, r2, r3);
    t0 = v128.load32_splat(a); s00 = fma(t0, v0, s00); s01 = fma(t0, v1, s01);
    t0 = v128.load32_splat(a + a1); s10 = fma(t0, v0, s10); s11 = fma(t0, v1, s11);
    t0 = v128.load32_splat(a + a2); s20 = fma(t0, v0, s20); s21 = fma(t0, v1, s21);
    t0 = v128.load32_splat(a + a3); s30 = fma(t0, v0, s30); s31 = fma(t0, v1, s31);
  }
  v128.store(c, s00); v128.store(c, s01, 16);
  v128.store(c + rowC, s10); v128.store(c + rowC, s11, 16);
  v128.store(c + 2 * rowC, s20); v128.store(c + 2 * rowC, s21, 16);
  v128.store(c + 3 * rowC, s30); v128.store(c + 3 * rowC, s31, 16);
}

export function dotRows(
  m: i32, n: i32, k: i32, a: usize, rowA: usize, b: usize, rowB: usize, c: usize, rowC: usize,
): void {
  let i = 0;
  for (; i + 4 <= m; i += 4, a += 4 * rowA, c += 4 * rowC) {
    let j = 0;
    for (; j + 8 <= n; j += 8) dotsOfFour(k, a, rowA, b + <usize>j * rowB, rowB, c + (<usize>j << 2), rowC);
    dotEdge(4, j, n, k, a, rowA, b, rowB, c, rowC);
  }
  for (; i < m; ++i, a += rowA, c += rowC) {
    const quarter = (n >> 4) << 2; // of the rows of B: a group in each
    for (let j = 0; j < quarter; j += 4) {
      const bj = b + <usize>j * rowB, cj = c + (<usize>j << 2);
      dotsOfOne(4, k, a, bj, rowB, rowB << 1, 3 * rowB, <usize>quarter * rowB, cj, <usize>quarter << 2);
    }
    dotEdge(1, quarter << 2, n, k, a, rowA, b, rowB, c, rowC);
  }
}

/** Columns from j on, four at a time; lanes past the last row of B repeat it. */
function dotEdge(
  m: i32, j: i32, n: i32, k: i32, a: usize, rowA: usize, b: usize, rowB: usize, c: usize, rowC: usize,
): void {
  for (; j < n; j += 4) {
    const last = n - 1 - j;
    const r1 = <usize>min(1, last) * rowB, r2 = <usize>min(2, last) * rowB, r3 = <usize>min(3, last) * rowB;
    const bj = b + <usize>j * rowB, cj = c + (<usize>j << 2);
    for (let i = 0; i < m; ++i) dotsOfOne(1, k, a + <usize>i * rowA, bj, r1, r2, r3, 0, cj + <usize>i * rowC, 0);
  }
}

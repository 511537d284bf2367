// y = exp(x), elementwise, and the vector exp the softmax kernels are built on.
//
// x, y: contiguous floats, of which [begin, end) are done; y may be x. No scratch. An empty range does nothing.
// Method: exp(x) = 2^n * exp(r), n = round(x / ln 2), r = x - n ln 2 in two steps (Cody and Waite; relative to
//   the largest of a row one will do, see expSubMaxPair), |r| <= 0.3466;
//   exp(r) = 1 + r + r^2 q(r), q of degree 4, minimax in relative error (3.7e-9, a sixteenth of half an ulp).
// Accuracy: at most 1.5 ulp on [-87, 0] in every build (test/exp.test.ts asserts it).
// Ends: exp(0) = 1 exactly; results below the smallest normal float32 are 0 (no subnormals: 28x slower in Wasm,
//   which has no flush-to-zero); -Infinity gives 0, overflow Infinity, NaN stays NaN whatever its payload.
// A tail runs through the same vector code, so a value never depends on its position.
import { fma, loadGroup, storeGroup } from "./simd";

// Splatted constants live in memory: newer V8 rebuilds a v128.const at each use inside a loop (3x slower).
const TABLE: usize = memory.data<f32>([
  1.44269504, 1.44269504, 1.44269504, 1.44269504,
  12583039, 12583039, 12583039, 12583039,
  -0.693145751953125, -0.693145751953125, -0.693145751953125, -0.693145751953125,
  -1.42860677e-6, -1.42860677e-6, -1.42860677e-6, -1.42860677e-6,
  0.00138145406, 0.00138145406, 0.00138145406, 0.00138145406,
  0.00836874545, 0.00836874545, 0.00836874545, 0.00836874545,
  0.041668389, 0.041668389, 0.041668389, 0.041668389,
  0.166665211, 0.166665211, 0.166665211, 0.166665211,
  0.49999994, 0.49999994, 0.49999994, 0.49999994,
  -87.336544, -87.336544, -87.336544, -87.336544,
  -69.0775528, -69.0775528, -69.0775528, -69.0775528,
  89, 89, 89, 89,
  -0.693147182, -0.693147182, -0.693147182, -0.693147182,
], 16);
// Offsets in TABLE.
@inline const LOG2E: usize = 0; // log2(e)
@inline const MAGIC: usize = 16; // 1.5 * 2^23 + 127: rounds to an integer, biased exponent in the low bits
@inline const LN2_HIGH: usize = 32; // -ln 2, high part: n * high is exact
@inline const LN2_LOW: usize = 48; // -ln 2, low part
@inline const Q4: usize = 64;
@inline const Q3: usize = 80;
@inline const Q2: usize = 96;
@inline const Q1: usize = 112;
@inline const Q0: usize = 128;
@inline const LARGEST: usize = 176; // exp of it overflows, and n stays within 2^128
@inline const LN2: usize = 192; // -ln 2, rounded

/** Offset in TABLE of the argument below which exp is 0: ln(2^-126), the smallest normal float32. */
@inline export const SMALLEST_NORMAL: usize = 144;
/** The same for weights: ln(1e-30), so that a weight times a value of ordinary size is never subnormal. */
@inline export const SMALLEST_WEIGHT: usize = 160;

@inline
function constant(offset: usize): v128 {
  return v128.load(TABLE + offset);
}

/** exp(r) - 1 where t = x log2(e) rounded by the magic constant and r = x - n ln 2. */
@inline
function expReducedMinus1(x: v128, t: v128): v128 {
  const n = f32x4.sub(t, constant(MAGIC));
  const r = fma(n, constant(LN2_LOW), fma(n, constant(LN2_HIGH), x));
  let q = fma(constant(Q4), r, constant(Q3));
  q = fma(q, r, constant(Q2));
  q = fma(q, r, constant(Q1));
  q = fma(q, r, constant(Q0));
  return fma(f32x4.mul(r, r), q, r);
}

/** exp(x) for x <= 0; 0 below the cutoff (SMALLEST_NORMAL or SMALLEST_WEIGHT). */
@inline
export function expNonPositive(x: v128, cutoff: usize): v128 {
  const t = fma(x, constant(LOG2E), constant(MAGIC));
  const power = i32x4.shl(t, 23); // 2^n, normal for n >= -126
  const y = fma(expReducedMinus1(x, t), power, power); // a product, not an addition of exponents: NaN survives it
  return v128.andnot(y, f32x4.lt(x, constant(cutoff)));
}

/**
 * Two vectors: y[0..4) = exp(x[0..4) - m0), y[4..8) = exp(x[4..8) - m1), no difference above 0; y may be x. The steps
 * alternate, so that each constant is loaded once for both (24 loads fewer in 60 instructions). `relative`, a literal:
 * errors count beside the largest, exp(0) = 1. Then n ln 2 is one product, with an error of 1e-9 of that at most,
 * though up to 3.5e-6 of the smallest where multiply-add is not fused (1 % less time in attention).
 */
@inline
export function expSubMaxPair(x: usize, y: usize, m0: v128, m1: v128, cutoff: usize, relative: bool): void {
  const x0 = f32x4.sub(v128.load(x), m0), x1 = f32x4.sub(v128.load(x, 16), m1);
  let c = constant(LOG2E);
  const magic = constant(MAGIC);
  const t0 = fma(x0, c, magic), t1 = fma(x1, c, magic);
  const n0 = f32x4.sub(t0, magic), n1 = f32x4.sub(t1, magic);
  c = constant(relative ? LN2 : LN2_HIGH);
  let r0 = fma(n0, c, x0), r1 = fma(n1, c, x1);
  if (!relative) {
    c = constant(LN2_LOW);
    r0 = fma(n0, c, r0);
    r1 = fma(n1, c, r1);
  }
  c = constant(Q4);
  const q3 = constant(Q3);
  let q0 = fma(c, r0, q3), q1 = fma(c, r1, q3);
  c = constant(Q2);
  q0 = fma(q0, r0, c);
  q1 = fma(q1, r1, c);
  c = constant(Q1);
  q0 = fma(q0, r0, c);
  q1 = fma(q1, r1, c);
  c = constant(Q0);
  q0 = fma(q0, r0, c);
  q1 = fma(q1, r1, c);
  q0 = fma(f32x4.mul(r0, r0), q0, r0);
  q1 = fma(f32x4.mul(r1, r1), q1, r1);
  const power0 = i32x4.shl(t0, 23), power1 = i32x4.shl(t1, 23);
  c = constant(cutoff);
  v128.store(y, v128.andnot(fma(q0, power0, power0), f32x4.lt(x0, c)));
  v128.store(y, v128.andnot(fma(q1, power1, power1), f32x4.lt(x1, c)), 16);
}

/** exp(x) for any x. 2^n is applied in two factors, since n reaches 128 where exp(x) is still finite. */
@inline
function expAny(x: v128): v128 {
  const clamped = f32x4.pmin(x, constant(LARGEST));
  const t = fma(clamped, constant(LOG2E), constant(MAGIC));
  const n = i32x4.sub(t, i32x4.splat(0x4b40007f));
  const half = i32x4.shr_s(n, 1);
  const bias = i32x4.splat(127);
  const power1 = i32x4.shl(i32x4.add(half, bias), 23);
  const power2 = i32x4.shl(i32x4.add(i32x4.sub(n, half), bias), 23);
  const p = expReducedMinus1(clamped, t);
  const y = f32x4.mul(fma(p, power1, power1), power2);
  return v128.andnot(y, f32x4.lt(x, constant(SMALLEST_NORMAL)));
}

/** y[i] = exp(x[i]) for i in [begin, end). */
export function exp(x: usize, y: usize, begin: i32, end: i32): void {
  assert(0 <= begin && begin <= end, "exp: work range");
  for (let i = begin; i < end; i += 4) {
    const at = <usize>i << 2;
    const count = min(4, end - i);
    storeGroup(y + at, expAny(loadGroup(x + at, count)), count);
  }
}

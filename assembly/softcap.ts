// Soft capping: s = softcap * tanh(s / softcap), elementwise in place (Gemma 2; ONNX Attention, softcap before mask).
//
// tanh(x): for |x| < 0.625 x + x^3 p(x^2), p of degree 4 (Cephes tanhf); else sign(x) (1 - t) / (1 + t) with
//   t = exp(-2 |x|).
// Accuracy: 1.5 ulp (test/attention-options.test.ts asserts it).
// Ends: tanh(0) = 0 with its sign, Infinity gives 1, NaN stays NaN.
import { SMALLEST_NORMAL, expNonPositive } from "./exp";
import { fma } from "./simd";

// In memory for the reason given in exp.ts, as single floats: a table of vectors would be four times the bytes.
const TABLE: usize = memory.data<f32>([
  -5.70498872745e-3, 2.06390887954e-2, -5.37397155531e-2, 1.33314422036e-1, -3.33332819422e-1, -2, 1, 0.625,
], 16);
// Offsets in TABLE.
@inline const P4: usize = 0;
@inline const P3: usize = 4;
@inline const P2: usize = 8;
@inline const P1: usize = 12;
@inline const P0: usize = 16;
@inline const MINUS_TWO: usize = 20;
@inline const ONE: usize = 24;
@inline const SMALL: usize = 28;

@inline
function constant(offset: usize): v128 {
  return v128.load32_splat(TABLE + offset);
}

@inline
function tanh(x: v128): v128 {
  const magnitude = f32x4.abs(x);
  const z = f32x4.mul(x, x);
  let p = fma(constant(P4), z, constant(P3));
  p = fma(p, z, constant(P2));
  p = fma(p, z, constant(P1));
  p = fma(p, z, constant(P0));
  const small = fma(f32x4.mul(p, z), x, x);
  const one = constant(ONE);
  const t = expNonPositive(f32x4.mul(magnitude, constant(MINUS_TWO)), SMALLEST_NORMAL);
  const large = f32x4.div(f32x4.sub(one, t), f32x4.add(one, t));
  const signed = v128.or(large, v128.and(x, f32x4.splat(-0.0)));
  return v128.bitselect(small, signed, f32x4.lt(magnitude, constant(SMALL)));
}

/** `bytes` (a multiple of 16) of scores at p. */
export function capScores(softcap: f32, p: usize, bytes: usize): void {
  const cap = f32x4.splat(softcap);
  for (const end = p + bytes; p < end; p += 16) v128.store(p, f32x4.mul(cap, tanh(f32x4.div(v128.load(p), cap))));
}

// Activations, elementwise.
//
//   relu      y = max(x, 0)
//   gelu      y = x Phi(x), Phi(x) = (1 + erf(x / sqrt(2))) / 2, the standard normal distribution function
//   geluTanh  y = x (1 + tanh(sqrt(2 / pi) (x + 0.044715 x^3))) / 2, the approximation of Hendrycks and Gimpel
// x, y: contiguous floats, of which [begin, end) are done; y may be x. No scratch. An empty range does nothing.
// Method: with t = |x| and Q = 1 - Phi, x Phi(x) = max(x, 0) - t Q(t): Q is small where the formula as it stands would
//   cancel. Q(t) = exp(-t^2 / 2) R(t), R(t) = u p(u) with u = 1 / (1 + 0.3 t), p of degree 9 (minimax, relative error
//   4e-8 with its coefficients rounded), and t^2 in two parts. For geluTanh Q(t) = e / (1 + e), e = exp(-2 u),
//   u = sqrt(2 / pi) (t + 0.044715 t^3).
// Accuracy: for x > 0 within 5 ulp; for x < 0 gelu within 7 ulp from -6 on and 10 below, geluTanh within 14 ulp from -3
//   on and 130 below, where the argument of the exponential has few digits left (test/activation.test.ts).
// Ends: relu(-0) = -0; gelu(-Infinity) = 0, its limit, where the formula as it stands gives NaN; gelu(Infinity) =
//   Infinity; NaN stays NaN. Q is 0 where the exponential would be subnormal, so that y = 0 for x < -13.3.
import { SMALLEST_NORMAL, expNonPositive } from "./exp";
import { fma, loadGroup, storeGroup } from "./simd";

// In memory for the reason given in exp.ts, as single floats.
const TABLE: usize = memory.data<f32>([
  -0.020589925, 0.112246804, -0.22775216, 0.1911431, -0.07886571,
  0.09584285, 0.0785038, 0.11020963, 0.11957509, 0.119686514,
  0.3, 1, 16, -0.5, -1.5957691216, -0.071354816,
], 16);
// Offsets in TABLE; before them the coefficients of p, highest power first.
@inline const SLOPE: usize = 40;
@inline const ONE: usize = 44;
@inline const FAR: usize = 48; // Q is 0 from there on, and t^3 far from overflow
@inline const MINUS_HALF: usize = 52;
@inline const TANH1: usize = 56; // -2 sqrt(2 / pi)
@inline const TANH3: usize = 60; // 0.044715 of that
/** The upper 12 bits of a significand. */
const UPPER_HALF: usize = memory.data<u32>([0xfffff000], 4);

const RELU: i32 = 0;
const GELU: i32 = 1;
const GELU_TANH: i32 = 2;

@inline
function constant(offset: usize): v128 {
  return v128.load32_splat(TABLE + offset);
}

/** 1 - Phi(t) for 0 <= t <= FAR. */
@inline
function upperTail(t: v128): v128 {
  const u = f32x4.div(constant(ONE), fma(t, constant(SLOPE), constant(ONE)));
  let p = constant(0);
  for (let offset: usize = 4; offset < SLOPE; offset += 4) p = fma(p, u, constant(offset));
  // t^2 = square + rest, exactly: halves of 12 bits have products that float32 holds.
  const high = v128.and(t, v128.load32_splat(UPPER_HALF));
  const low = f32x4.sub(t, high);
  const square = f32x4.mul(t, t);
  const cross = f32x4.mul(f32x4.add(high, high), low);
  const rest = f32x4.add(f32x4.add(f32x4.sub(f32x4.mul(high, high), square), cross), f32x4.mul(low, low));
  const half = constant(MINUS_HALF);
  const e = expNonPositive(f32x4.mul(square, half), SMALLEST_NORMAL);
  return f32x4.mul(fma(f32x4.mul(rest, half), e, e), f32x4.mul(p, u));
}

/** The same for the approximation. */
@inline
function upperTailTanh(t: v128): v128 {
  const argument = f32x4.mul(t, fma(f32x4.mul(t, t), constant(TANH3), constant(TANH1)));
  const e = expNonPositive(argument, SMALLEST_NORMAL);
  return f32x4.div(e, f32x4.add(constant(ONE), e));
}

@inline
function activated(kind: i32, x: v128): v128 {
  const positive = f32x4.pmax(x, f32x4.splat(0)); // x < 0 ? 0 : x, which keeps NaN
  if (kind == RELU) return positive;
  const t = f32x4.pmin(f32x4.abs(x), constant(FAR));
  return f32x4.sub(positive, f32x4.mul(t, kind == GELU ? upperTail(t) : upperTailTanh(t)));
}

@inline
function activate(kind: i32, x: usize, y: usize, begin: i32, end: i32): void {
  assert(0 <= begin && begin <= end, "activation: work range");
  for (let i = begin; i < end; i += 4) {
    const at = <usize>i << 2;
    const count = min(4, end - i);
    storeGroup(y + at, activated(kind, loadGroup(x + at, count)), count);
  }
}

/** y[i] = max(x[i], 0) for i in [begin, end). */
export function relu(x: usize, y: usize, begin: i32, end: i32): void {
  activate(RELU, x, y, begin, end);
}

/** y[i] = gelu(x[i]) for i in [begin, end). */
export function gelu(x: usize, y: usize, begin: i32, end: i32): void {
  activate(GELU, x, y, begin, end);
}

/** y[i] = geluTanh(x[i]) for i in [begin, end). */
export function geluTanh(x: usize, y: usize, begin: i32, end: i32): void {
  activate(GELU_TANH, x, y, begin, end);
}

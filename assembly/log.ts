// log(x) in float64 for the sums of the softmax family: x = 2^e m with m in [sqrt(1/2), sqrt(2)),
// log x = e ln 2 + 2 atanh(s), s = (m - 1) / (m + 1), |s| <= 0.1716.
// Accuracy: 1e-15 relative to the larger term, so a result rounded to float32 is rounded once.
// Ends: 0 gives -Infinity, Infinity and NaN stay, negative numbers give NaN. x is a float32 value, so never a subnormal
// float64.
const SQRT2: f64 = 1.4142135623730951;
const LN2: f64 = 0.6931471805599453;

export function log(x: f64): f64 {
  if (!(x > 0) || x == Infinity) return x == 0 ? -Infinity : x < 0 ? NaN : x;
  const bits = reinterpret<u64>(x);
  let e = <i32>(bits >> 52) - 1023;
  let m = reinterpret<f64>((bits & 0x000f_ffff_ffff_ffff) | 0x3ff0_0000_0000_0000);
  if (m > SQRT2) {
    m *= 0.5;
    e += 1;
  }
  const s = (m - 1) / (m + 1);
  const z = s * s;
  let p = 1.0 / 19;
  p = p * z + 1.0 / 17;
  p = p * z + 1.0 / 15;
  p = p * z + 1.0 / 13;
  p = p * z + 1.0 / 11;
  p = p * z + 1.0 / 9;
  p = p * z + 1.0 / 7;
  p = p * z + 1.0 / 5;
  p = p * z + 1.0 / 3;
  return <f64>e * LN2 + 2 * s * (1 + p * z);
}

/** max + log(sum): the end of every log-sum-exp, rounded once. */
@inline
export function maxPlusLog(rowMax: f32, rowSum: f32): f32 {
  return <f32>(<f64>rowMax + log(rowSum));
}

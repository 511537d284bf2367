import { expect, it } from "vitest";
import { describeVariants, ulp32 } from "./support.ts";

const smallestNormal = 2 ** -126;
const largest = (2 - 2 ** -23) * 2 ** 127;

describeVariants("exp", (runtime) => {
  const exp = (values: ArrayLike<number>): Float32Array =>
    runtime.exp({ data: Float32Array.from(values), shape: [values.length] }).data;

  /** Largest error in ulps of the result over n points of [low, high], and where it is. */
  const worstUlps = (low: number, high: number, n: number): { ulps: number; x: number } => {
    const x = Float32Array.from({ length: n }, (_, i) => low + ((high - low) * i) / (n - 1));
    const y = exp(x);
    let worst = { ulps: 0, x: low };
    for (let i = 0; i < n; i++) {
      const want = Math.exp(x[i] as number);
      const ulps = Math.abs((y[i] as number) - want) / ulp32(want);
      // Written so that NaN counts as worst.
      if (!(ulps <= worst.ulps)) worst = { ulps, x: x[i] as number };
    }
    return worst;
  };

  it("is within 1.5 ulp over a million points of [-87, 0]", () => {
    const { ulps, x } = worstUlps(-87, 0, 1_000_000);
    expect(ulps, `at x = ${x}`).toBeLessThanOrEqual(1.5);
  });

  it("is within 1.5 ulp up to where it overflows", () => {
    const { ulps, x } = worstUlps(0, 88.72, 100_000);
    expect(ulps, `at x = ${x}`).toBeLessThanOrEqual(1.5);
  });

  it("is within 1.5 ulp around 0", () => {
    const { ulps, x } = worstUlps(-1e-3, 1e-3, 10_000);
    expect(ulps, `at x = ${x}`).toBeLessThanOrEqual(1.5);
    expect(Array.from(exp([0, -0, 1e-45, -1e-45]))).toEqual([1, 1, 1, 1]);
  });

  it("is finite up to 88.72 and Infinity beyond the largest float32", () => {
    expect(exp([88.72])[0]).toBeLessThanOrEqual(largest);
    expect(Array.from(exp([88.73, 89, 1000, 3.4e38, Infinity]))).toEqual(Array(5).fill(Infinity));
  });

  it("is exactly 0 below the smallest normal number", () => {
    expect(Array.from(exp([-Infinity, -1e9, -3.4e38, -1000, -104, -88]))).toEqual(Array(6).fill(0));
    const x = Array.from({ length: 2000 }, (_, i) => -87.2 - i * 1e-3);
    exp(x).forEach((y, i) => {
      const want = Math.exp(Math.fround(x[i] as number));
      if (want < smallestNormal * (1 - 1e-6)) expect(y, `exp(${x[i]})`).toBe(0);
      if (want > smallestNormal * (1 + 1e-6))
        expect(y, `exp(${x[i]})`).toBeGreaterThanOrEqual(smallestNormal);
    });
  });

  it("leaves NaN as NaN, in every lane and tail position and whatever its payload", () => {
    const payloads = [0x7fc00000, 0xffc00000, 0x7f800001, 0xff800001, 0x7fffffff, 0xffffffff, 0x7fa5a5a5];
    for (let n = 1; n <= 19; n++) {
      for (let at = 0; at < n; at++) {
        for (const payload of payloads) {
          const bits = new Uint32Array(n); // all the others are 0
          bits[at] = payload;
          const y = runtime.exp({ data: new Float32Array(bits.buffer), shape: [n] }).data;
          expect(y[at], `payload ${payload.toString(16)} at ${at} of ${n}`).toBeNaN();
          expect(y.filter((v) => v === 1).length, `the others, NaN at ${at} of ${n}`).toBe(n - 1);
        }
      }
    }
  });

  it("gives a number the same value wherever it stands", () => {
    for (const x of [-86.9, -20.3, -1.7, -0.1, 0.3, 2.9, 71.5]) {
      const alone = exp([x])[0];
      for (let n = 1; n <= 19; n++) {
        const row = exp(Array(n).fill(x));
        row.forEach((y, i) => {
          expect(y, `exp(${x}) at ${i} of ${n}`).toBe(alone);
        });
      }
      // Among numbers that take other paths: zero, overflow, NaN.
      for (let at = 0; at < 8; at++) {
        const row = [-Infinity, 1000, NaN, 0, -90, 5, -3, Infinity];
        row[at] = x;
        expect(exp(row)[at], `exp(${x}) at ${at} of a mixed row`).toBe(alone);
      }
    }
  });

  it("keeps shapes and leaves the input as it is", () => {
    const x = { data: Float32Array.of(0, 1, 2, 3, 4, 5), shape: [2, 1, 3] };
    expect(runtime.exp(x).shape).toEqual([2, 1, 3]);
    expect(Array.from(x.data)).toEqual([0, 1, 2, 3, 4, 5]);
    expect(runtime.exp({ data: new Float32Array(0), shape: [0, 4] })).toEqual({
      data: new Float32Array(0),
      shape: [0, 4],
    });
  });
});

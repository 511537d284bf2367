import { describe, expect, it } from "vitest";
import { float64 } from "./reference/rounding.ts";
import { naiveSoftmax, softmaxRow } from "./reference/softmax.ts";
import { describeVariants, normal, randomTensor } from "./support.ts";

/**
 * Why scores are divided by sqrt(d): the softmax of large numbers is one-hot, its derivative
 * p(1 - p) vanishes, and q . k of d random terms is about sqrt(d) large.
 */
const logits = [1, 2, 0.5, 1.8];
const probabilities = [0.1527, 0.415, 0.0926, 0.3398];
const saturated = [0, 0.8808, 0, 0.1192];

const row = (values: number[]) => ({ data: Float32Array.from(values), shape: [values.length] });
const signals = (p: ArrayLike<number>): number[] => Array.from(p, (pj) => pj * (1 - pj));

const expectDigits = (got: ArrayLike<number>, want: number[], digits: number): void => {
  expect(got.length).toBe(want.length);
  want.forEach((w, i) => {
    expect(got[i], `element ${i} of [${Array.from(got)}]`).toBeCloseTo(w, digits);
  });
};

describeVariants("theory", (runtime) => {
  const softmax = (x: number[]): Float32Array => runtime.softmax(row(x)).data;

  it("softmax turns scores into shares", () => {
    expectDigits(softmax(logits), probabilities, 4);
    // e^-10 / (1 + 2 e^-10): each small share is twice the 0.0000226 that some texts print.
    expectDigits(softmax([0, 0, 10]).subarray(0, 2), [4.5396e-5, 4.5396e-5], 9);
    expect(softmax([0, 0, 10])[2]).toBeCloseTo(0.9999092, 7);
  });

  it("ten times the scores saturate it", () => {
    expectDigits(softmax(logits.map((x) => 10 * x)), saturated, 4);
  });

  it("saturation takes the gradient signal p(1 - p) away", () => {
    expect(Math.max(...signals(softmax(logits)))).toBeCloseTo(0.2428, 4);
    expect(Math.max(...signals(softmax(logits.map((x) => 10 * x))))).toBeCloseTo(0.105021, 6);
  });

  it("does not overflow where the textbook form does", () => {
    expectDigits(softmax([1000, 1001, 999]), [0.244728, 0.665241, 0.090031], 6);
  });

  it.each([64, 512])(
    "q . k over unit normal vectors of length %i has the deviation sqrt(d), scaled 1",
    (d) => {
      // 400 queries against 400 keys: 160,000 products, of which the estimate is good to well under 1 %.
      const n = 400;
      const scores = runtime.matmul(randomTensor([n, d], d), randomTensor([n, d], d + 1), {
        transposeB: true,
      });
      const scaled = runtime.scale(scores, 1 / Math.sqrt(d));
      expectWithin(deviation(scores.data), Math.sqrt(d), 0.03);
      expectWithin(deviation(scaled.data), 1, 0.03);
    },
  );
});

describe("the textbook softmax", () => {
  it("is right for small scores", () => {
    expectDigits(naiveSoftmax(logits), probabilities, 4);
    expectDigits(softmaxRow(logits, float64), probabilities, 4);
  });

  it("overflows to NaN for large ones", () => {
    expect(naiveSoftmax([1000, 1001, 999])).toEqual([NaN, NaN, NaN]);
    expectDigits(softmaxRow([1000, 1001, 999], float64), [0.244728, 0.665241, 0.090031], 6);
  });
});

describe("random numbers of the tests", () => {
  it("are standard normal and the same every time", () => {
    const next = normal(7);
    const x = Float64Array.from({ length: 100_000 }, next);
    expect(x.reduce((a, b) => a + b, 0) / x.length).toBeCloseTo(0, 1);
    expectWithin(deviation(x), 1, 0.01);
    expect(randomTensor([3], 7).data).toEqual(Float32Array.from(x.subarray(0, 3)));
  });
});

function deviation(x: ArrayLike<number>): number {
  const values = Array.from(x);
  const mean = values.reduce((a, b) => a + b, 0) / values.length;
  return Math.sqrt(values.reduce((sum, v) => sum + (v - mean) ** 2, 0) / values.length);
}

function expectWithin(got: number, want: number, share: number): void {
  expect(got).toBeGreaterThan(want * (1 - share));
  expect(got).toBeLessThan(want * (1 + share));
}

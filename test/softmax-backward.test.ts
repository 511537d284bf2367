import fc from "fast-check";
import { expect, it } from "vitest";
import type { ResidentTensor, Tensor } from "../src/index.ts";
import { lengths, runs } from "./arbitraries.ts";
import type { RefTensor } from "./reference/rounding.ts";
import * as reference from "./reference/softmax.ts";
import {
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  itRefuses,
  littered,
  randomTensor,
  type TestTensor,
  zeros,
} from "./support.ts";

const operations = [
  ["softmaxBackward", "softmax"],
  ["logSoftmaxBackward", "logSoftmax"],
] as const;

describeVariants("softmaxBackward, logSoftmaxBackward", (runtime, variant) => {
  const check = (
    backward: "softmaxBackward" | "logSoftmaxBackward",
    dOut: TestTensor,
    y: TestTensor,
    axis: number,
  ): void => {
    const label = `${backward} of [${y.shape}] along ${axis}`;
    const { want, tolerances } = calibrate(
      label,
      [dOut, y] as const,
      ([d, t], round) => [reference[backward](d, t, axis, round)],
      { factor: 3 },
    );
    const got = runtime[backward](dOut, y, { axis });
    expectClose(got, want[0] as RefTensor, tolerances[0] as number, label);
  };

  it.each(operations)("%s is right for rows of every length", (backward, forward) => {
    for (const n of [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33, 64, 97, 257, 1025])
      check(backward, randomTensor([5, n], n + 1), runtime[forward](randomTensor([5, n], n)), -1);
  });

  it.each(operations)("%s is right along every axis", (backward, forward) => {
    for (const shape of [
      [3, 5, 7],
      [2, 9, 4],
      [1, 129, 1],
      [4, 1, 13],
      [2, 3, 4, 5],
    ]) {
      for (let axis = -shape.length; axis < shape.length; axis++)
        check(backward, randomTensor(shape, 6), runtime[forward](randomTensor(shape, 5), { axis }), axis);
    }
  });

  it.each(operations)("%s is the derivative of %s", (backward, forward) => {
    const [x, dOut] = [randomTensor([11], 1), randomTensor([11], 2)];
    const exact = (values: ArrayLike<number>): RefTensor =>
      reference[forward]({ data: Float64Array.from(values), shape: [11] });
    const loss = (values: ArrayLike<number>): number =>
      dOut.data.reduce((sum, d, i) => sum + d * (exact(values).data[i] as number), 0);
    const got = runtime[backward](dOut, runtime[forward](x));
    for (let i = 0; i < 11; i++) {
      const moved = (by: number) => Float64Array.from(x.data, (v, j) => (i === j ? v + by : v));
      expect(got.data[i]).toBeCloseTo((loss(moved(1e-5)) - loss(moved(-1e-5))) / 2e-5, 5);
    }
  });

  it.each(operations)("%s of a constant gradient or one row of one element", (backward, forward) => {
    const y = runtime[forward](randomTensor([4, 9], 3));
    const ones = { data: new Float32Array(36).fill(1), shape: [4, 9] };
    if (backward === "softmaxBackward") expectClose(runtime[backward](ones, y), zeros(4, 9), 1e-6);
    const single = runtime[forward](zeros(3, 1));
    expectClose(runtime[backward](randomTensor([3, 1], 1), single), zeros(3, 1), 0);
  });

  it.each(operations)("%s carries NaN and Infinity to their row alone", (backward, forward) => {
    for (let n = 1; n <= 13; n++) {
      const y = runtime[forward](randomTensor([3, n], n));
      const clean = randomTensor([3, n], n + 1);
      const want = runtime[backward](clean, y).data;
      for (const value of [NaN, Infinity]) {
        const dOut = { data: clean.data.slice(), shape: [3, n] };
        dOut.data[n + (n >> 1)] = value;
        const got = runtime[backward](dOut, y).data;
        for (const row of [0, 2])
          expect(got.slice(row * n, row * n + n)).toEqual(want.slice(row * n, row * n + n));
        expect(got[n + (n >> 1)]).toBeNaN();
      }
    }
  });

  it("logSoftmaxBackward gives no share of the sum to a log-probability of -Infinity", () => {
    const y = { data: Float32Array.of(-Infinity, 0, -Infinity, -Infinity, -Infinity), shape: [5] };
    const dOut = { data: Float32Array.of(1, 2, 3, 4, 5), shape: [5] };
    const want = { data: Float32Array.of(1, -13, 3, 4, 5), shape: [5] };
    expectSame(runtime.logSoftmaxBackward(dOut, y), want);
  });

  it.each(operations)("%s writes into out, which may be dOut or y", (backward, forward) => {
    for (const axis of [0, 1]) {
      const y = runtime[forward](randomTensor([5, 9], 6), { axis });
      const dOut = randomTensor([5, 9], 7);
      const want = runtime[backward](dOut, y, { axis });
      const out = { data: new Float32Array(45).fill(NaN), shape: [5, 9] };
      expect(runtime[backward](dOut, y, { axis, out })).toBe(out);
      expectSame(out, want);
      using d = runtime.tensor([5, 9], dOut.data);
      using p = runtime.tensor([5, 9], y.data);
      using got = runtime[backward](d, p, { axis }) as ResidentTensor;
      expectSame({ data: got.data, shape: [...got.shape] }, want, "resident");
      expect(runtime[backward](d, y, { axis })).not.toHaveProperty("dispose");
      runtime[backward](d, p, { axis, out: p });
      expectSame({ data: p.data, shape: [5, 9] }, want, "over y");
      p.data.set(y.data);
      runtime[backward](d, p, { axis, out: d });
      expectSame({ data: d.data, shape: [5, 9] }, want, "over dOut");
    }
  });

  it("take empty tensors", () => {
    expectSame(runtime.softmaxBackward(zeros(3, 0), zeros(3, 0)), zeros(3, 0));
    expectSame(runtime.logSoftmaxBackward(zeros(2, 0, 3), zeros(2, 0, 3), { axis: 1 }), zeros(2, 0, 3));
    const huge = zeros(2 ** 28, 2 ** 28, 0);
    expectSame(runtime.softmaxBackward(huge, huge), huge);
  });

  it.each(operations)("%s equals the reference for any shape and axis", (backward, forward) => {
    const problem = fc.record({
      shape: fc
        .array(fc.constantFrom(...lengths), { minLength: 1, maxLength: 3 })
        .filter((shape) => shape.reduce((p, n) => p * n, 1) <= 10_000),
      nth: fc.nat(2),
      seed: fc.integer({ min: 1, max: 2 ** 30 }),
      spread: fc.constantFrom(0.1, 1, 30),
    });
    fc.assert(
      fc.property(problem, ({ shape, nth, seed, spread }) => {
        const axis = nth % shape.length;
        const x = randomTensor(shape, seed);
        const y = runtime[forward]({ data: x.data.map((v) => v * spread), shape }, { axis });
        const dOut = randomTensor(shape, seed + 1);
        check(backward, dOut, y, axis);
        const got: Tensor = littered(variant, NaN)[backward](dOut, y, { axis });
        expectSame(got, runtime[backward](dOut, y, { axis }));
      }),
      runs(40),
    );
  });

  itRefuses(runtime, [
    [
      "shapes that differ",
      () => runtime.softmaxBackward(zeros(2, 3), zeros(3, 2)),
      RangeError,
      /softmaxBackward: dOut\.shape must be that of y \[3, 2\], got \[2, 3\]/,
    ],
    [
      "a scalar",
      () => runtime.logSoftmaxBackward(zeros(), zeros()),
      RangeError,
      /logSoftmaxBackward: y must have rank 1 or more for an axis/,
    ],
    [
      "axis",
      () => runtime.softmaxBackward(zeros(2), zeros(2), { axis: 1 }),
      RangeError,
      /softmaxBackward: axis must be from -1 to 0 for rank 1, got 1/,
    ],
    [
      "an unknown option",
      () => runtime.softmaxBackward(zeros(2), zeros(2), { into: zeros(2) } as never),
      TypeError,
      /softmaxBackward: unknown option "into"; this version knows axis, out/,
    ],
  ]);
});

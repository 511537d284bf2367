import { expect, it } from "vitest";
import type { LogSumExpOptions, ResidentTensor, Tensor, TensorLike } from "../src/index.ts";
import type { RefTensor, Rounding } from "./reference/rounding.ts";
import * as reference from "./reference/softmax.ts";
import {
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  randomTensor,
  type TestTensor,
} from "./support.ts";

const operations = ["softmax", "logSoftmax", "logSumExp"] as const;
type Operation = (typeof operations)[number];

/** Row lengths around the vector widths and the unrolling, and longer than any block. */
const lengths = [1, 2, 3, 4, 5, 7, 8, 9, 12, 15, 16, 17, 31, 33, 64, 97, 129, 257, 1025];

function expected(operation: Operation, x: RefTensor, axis: number, round: Rounding): RefTensor {
  if (operation === "logSumExp") return reference.logSumExp(x, axis, false, round);
  return reference[operation](x, axis, round);
}

type Apply = (x: TensorLike, options?: LogSumExpOptions) => Tensor;

describeVariants("softmax, logSoftmax, logSumExp", (runtime) => {
  const apply = (operation: Operation): Apply => runtime[operation] as Apply;
  const check = (operation: Operation, x: TestTensor, axis: number): void => {
    const label = `${operation} of [${x.shape}] along ${axis}`;
    const { want, tolerances } = calibrate(label, [x] as const, ([t], round) => [
      expected(operation, t, axis, round),
    ]);
    expectClose(apply(operation)(x, { axis }), want[0] as RefTensor, tolerances[0] as number, label);
  };

  it.each(operations)("%s is right for rows of every length", (operation) => {
    for (const n of lengths) check(operation, randomTensor([7, n], n), -1);
  });

  it.each(operations)("%s is right along every axis", (operation) => {
    for (const shape of [
      [3, 5, 7],
      [2, 9, 4],
      [1, 129, 1],
      [4, 1, 13],
      [2, 3, 4, 5],
    ]) {
      for (let axis = -shape.length; axis < shape.length; axis++)
        check(operation, randomTensor(shape, 5), axis);
    }
  });

  it.each(operations)("%s takes a vector, and -1 is the default axis", (operation) => {
    const x = randomTensor([33], 1);
    check(operation, x, 0);
    expectSame(apply(operation)(x), apply(operation)(x, { axis: 0 }));
  });

  it.each(operations)("%s does not depend on a shift of the row", (operation) => {
    // Powers of two over small integers: the shifted rows are exact, so the shares are the same bits.
    const x = { data: Float32Array.of(1, -2, 3, 0, 2, -1), shape: [6] };
    const shifted = { data: x.data.map((v) => v + 4096), shape: [6] };
    const [plain, moved] = [apply(operation)(x), apply(operation)(shifted)];
    if (operation === "logSumExp") expect(moved.data[0]).toBeCloseTo((plain.data[0] as number) + 4096, 3);
    else expectSame(moved, plain);
  });

  it("rows of softmax sum to 1, those of logSoftmax to 1 after exp", () => {
    const x = randomTensor([50, 257], 3);
    const p = runtime.softmax(x).data;
    const logP = runtime.logSoftmax(x).data;
    for (let i = 0; i < 50; i++) {
      expect(p.subarray(i * 257, (i + 1) * 257).reduce((a, b) => a + b, 0)).toBeCloseTo(1, 5);
      expect(logP.subarray(i * 257, (i + 1) * 257).reduce((a, b) => a + Math.exp(b), 0)).toBeCloseTo(1, 4);
    }
  });

  it.each(operations)("%s is right for large numbers of either sign", (operation) => {
    const base = randomTensor([9, 33], 8);
    for (const factor of [100, 1e4, 1e30, -1e30]) {
      check(operation, { data: base.data.map((v) => v * factor), shape: base.shape }, -1);
      check(operation, { data: base.data.map((v) => v * factor), shape: base.shape }, 0);
    }
    check(operation, { data: base.data.map((v) => v - 1e4), shape: base.shape }, -1);
    check(operation, { data: Float32Array.of(3.4e38, 3.4e38, 0), shape: [3] }, -1);
  });

  it.each(operations)(
    "%s takes -Infinity as no share, and a row of nothing else as torch does",
    (operation) => {
      const x = randomTensor([5, 13], 2);
      x.data.fill(-Infinity, 0, 12); // all but the last of row 0
      x.data.fill(-Infinity, 13, 26); // all of row 1
      x.data[26] = -Infinity; // the first of row 2
      check(operation, x, 1);
      check(operation, { data: x.data.slice(13, 26), shape: [13, 1] }, 0);
    },
  );

  it.each(operations)(
    "%s gives NaN for NaN and what IEEE says for Infinity, in that row alone",
    (operation) => {
      for (let n = 1; n <= 19; n++) {
        for (let at = 0; at < n; at++) {
          const x = randomTensor([3, n], n);
          x.data[n + at] = at % 2 === 0 ? NaN : Infinity;
          check(operation, x, 1);
          const columns = randomTensor([n, 3], n);
          columns.data[at * 3 + 1] = at % 2 === 0 ? NaN : Infinity;
          check(operation, columns, 0);
        }
      }
    },
  );

  it("logSumExp reduces several axes, keeps them on demand, and reduces nothing for none", () => {
    const x = randomTensor([3, 4, 5, 6], 4);
    for (const axis of [[0], [1, 2], [0, 3], [-1, 0], [0, 2], [1, 3], [0, 1, 2, 3], []]) {
      for (const keepDims of [false, true]) {
        const label = `axes [${axis}], keepDims ${keepDims}`;
        const { want, tolerances } = calibrate(label, [x] as const, ([t], round) => [
          reference.logSumExp(t, axis, keepDims, round),
        ]);
        const got = runtime.logSumExp(x, { axis, keepDims });
        expectClose(got, want[0] as RefTensor, tolerances[0] as number, label);
      }
    }
  });

  it("gives empty results for empty shapes, and -Infinity for the sum over nothing", () => {
    const empty = (shape: number[]) => ({ data: new Float32Array(0), shape });
    expectSame(runtime.softmax(empty([3, 0])), empty([3, 0]));
    expectSame(runtime.logSoftmax(empty([0, 3])), empty([0, 3]));
    expectSame(runtime.softmax(empty([2, 0, 3]), { axis: 1 }), empty([2, 0, 3]));
    expectSame(runtime.logSumExp(empty([2, 0])), { data: Float32Array.of(-Infinity, -Infinity), shape: [2] });
    expectSame(runtime.logSumExp(empty([0, 2])), empty([0]));
    expectSame(runtime.logSumExp(empty([2, 0, 3]), { axis: [0, 1], keepDims: true }), {
      data: new Float32Array(3).fill(-Infinity),
      shape: [1, 1, 3],
    });
  });

  it.each(operations)(
    "%s writes into out, the same bits as without, and out may be the input",
    (operation) => {
      const x = randomTensor([5, 9], 6);
      const want = apply(operation)(x, { axis: 0 });
      const out = { data: new Float32Array(want.data.length).fill(NaN), shape: want.shape };
      expect(apply(operation)(x, { axis: 0, out })).toBe(out);
      expectSame(out, want);
      if (operation === "logSumExp") return;
      const inPlace = randomTensor([5, 9], 6);
      apply(operation)(inPlace, { axis: 0, out: inPlace });
      expectSame(inPlace, want);
    },
  );

  it.each(operations)(
    "%s gives the same bits for resident tensors, and for one row as for many",
    (operation) => {
      const x = randomTensor([6, 21], 9);
      const want = apply(operation)(x);
      const resident = runtime.tensor(x.shape, x.data);
      const got = apply(operation)(resident) as ResidentTensor;
      expectSame({ data: got.data.slice(), shape: [...got.shape] }, want);
      resident.dispose();
      got.dispose();
      for (let i = 0; i < 6; i++) {
        const alone = apply(operation)({ data: x.data.slice(i * 21, i * 21 + 21), shape: [21] });
        const width = want.data.length / 6;
        expectSame(
          { data: alone.data, shape: [width] },
          { data: want.data.slice(i * width, (i + 1) * width), shape: [width] },
        );
      }
    },
  );
});

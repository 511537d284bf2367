import fc from "fast-check";
import { expect, it } from "vitest";
import type { Tensor } from "../src/index.ts";
import { lengths, runs } from "./arbitraries.ts";
import { matmul } from "./reference/matmul.ts";
import type { RefTensor } from "./reference/rounding.ts";
import * as reference from "./reference/softmax.ts";
import {
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  littered,
  randomTensor,
  type TestTensor,
} from "./support.ts";

const seeds = fc.integer({ min: 1, max: 2 ** 30 });

/** Up to four axes with about 5,000 elements at most. */
const anyShape = fc
  .array(fc.constantFrom(...lengths), { minLength: 1, maxLength: 4 })
  .map((shape) =>
    shape.map((n, axis) => (axis > 0 && shape.slice(0, axis).reduce((p, m) => p * m, n) > 5_000 ? 1 : n)),
  );

describeVariants("softmax, logSoftmax, logSumExp, for any shape and axis", (runtime, variant) => {
  const problem = anyShape.chain((shape) =>
    fc.record({
      shape: fc.constant(shape),
      axis: fc.integer({ min: -shape.length, max: shape.length - 1 }),
      spread: fc.constantFrom(0.1, 1, 10, 1000),
      seed: seeds,
    }),
  );
  const input = (shape: number[], spread: number, seed: number): TestTensor => {
    const x = randomTensor(shape, seed);
    return { data: x.data.map((v) => v * spread), shape };
  };

  it.each(["softmax", "logSoftmax", "logSumExp"] as const)("%s equals the reference", (operation) => {
    fc.assert(
      fc.property(problem, ({ shape, axis, spread, seed }) => {
        const x = input(shape, spread, seed);
        const label = `${operation} of [${shape}] along ${axis}, spread ${spread}`;
        const { want, tolerances } = calibrate(label, [x] as const, ([t], round) => [
          operation === "logSumExp"
            ? reference.logSumExp(t, axis, false, round)
            : reference[operation](t, axis, round),
        ]);
        const got = (runtime[operation] as (x: TestTensor, options: { axis: number }) => Tensor)(x, { axis });
        expectClose(got, want[0] as RefTensor, tolerances[0] as number, label);
      }),
      runs(60),
    );
  });

  it("softmax gives shares that sum to 1", () => {
    fc.assert(
      fc.property(problem, ({ shape, axis, spread, seed }) => {
        const p = runtime.softmax(input(shape, spread, seed), { axis });
        const n = shape.at(axis) as number;
        for (const share of p.data) {
          expect(share).toBeGreaterThanOrEqual(0);
          expect(share).toBeLessThanOrEqual(1);
        }
        const logSums = reference.logSumExp({ data: p.data.map(Math.log), shape }, axis);
        // n shares, each rounded at its own size: on the whole at most n half ulps of their mean, 1/n.
        for (const logSum of logSums.data as Float64Array)
          expect(Math.abs(Math.exp(logSum) - 1)).toBeLessThan((8 + n / 4) * 2 ** -24);
      }),
      runs(40),
    );
  });

  it("none depends on what memory held before", () => {
    fc.assert(
      fc.property(problem, fc.constantFrom(NaN, Infinity, -1), ({ shape, axis, spread, seed }, rubbish) => {
        const x = input(shape, spread, seed);
        const other = littered(variant, rubbish);
        expectSame(other.softmax(x, { axis }), runtime.softmax(x, { axis }), "softmax");
        expectSame(other.logSoftmax(x, { axis }), runtime.logSoftmax(x, { axis }), "logSoftmax");
        expectSame(other.logSumExp(x, { axis }), runtime.logSumExp(x, { axis }), "logSumExp");
        expectSame(other.exp(x), runtime.exp(x), "exp");
        expectSame(other.scale(x, 2), runtime.scale(x, 2), "scale");
      }),
      runs(20),
    );
  });

  it("logSumExp over several axes equals the reference, axes kept or not", () => {
    const several = problem.chain((p) =>
      fc.record({ p: fc.constant(p), axis: fc.subarray([...p.shape.keys()]), keepDims: fc.boolean() }),
    );
    fc.assert(
      fc.property(several, ({ p: { shape, spread, seed }, axis, keepDims }) => {
        const x = input(shape, spread, seed);
        const label = `[${shape}] over [${axis}], spread ${spread}, keepDims ${keepDims}`;
        const { want, tolerances } = calibrate(label, [x] as const, ([t], round) => [
          reference.logSumExp(t, axis, keepDims, round),
        ]);
        const got = runtime.logSumExp(x, { axis, keepDims });
        expectClose(got, want[0] as RefTensor, tolerances[0] as number, label);
      }),
      runs(60),
    );
  });
});

describeVariants("matmul, for any shape and options", (runtime, variant) => {
  const size = fc.constantFrom(...lengths);
  const problem = fc
    .record({
      m: size,
      n: size,
      k: size,
      batches: fc.constantFrom<[number[], number[]][]>(
        [[], []],
        [[3], []],
        [[], [2]],
        [[2], [2]],
        [[2, 1], [3]],
        [[1], [2, 2]],
      ),
      transposeA: fc.boolean(),
      transposeB: fc.boolean(),
      alpha: fc.constantFrom(1, 1, 1, 0, -0.5, 3),
      beta: fc.constantFrom(1, 1, 0, -0.5, 3),
      c: fc.option(fc.tuple(fc.boolean(), fc.boolean(), fc.boolean())),
      seed: seeds,
    })
    .filter(({ m, n, k }) => m * n * k <= 300_000);
  type Problem = typeof problem extends fc.Arbitrary<infer T> ? T : never;

  const operands = ({ m, n, k, batches, transposeA, transposeB, c }: Problem, seed: number) => ({
    a: randomTensor([...batches[0], ...(transposeA ? [k, m] : [m, k])], seed),
    b: randomTensor([...batches[1], ...(transposeB ? [n, k] : [k, n])], seed + 1),
    c: c ? randomTensor([c[0] ? m : 1, c[1] ? n : 1].slice(c[2] ? 0 : 1), seed + 2) : undefined,
  });
  const optionsOf = ({ transposeA, transposeB, alpha, beta }: Problem, c: TestTensor | undefined) => ({
    transposeA,
    transposeB,
    alpha,
    ...(c ? { c, beta } : {}),
  });

  it("equals the reference", () => {
    fc.assert(
      fc.property(problem, (p) => {
        const { a, b, c } = operands(p, p.seed);
        const { want, tolerances } = calibrate(
          JSON.stringify(p),
          c ? [a, b, c] : [a, b],
          ([x, y, z], round) => [matmul(x as TestTensor, y as TestTensor, optionsOf(p, z), round)],
        );
        const got = runtime.matmul(a, b, optionsOf(p, c));
        expectClose(got, want[0] as RefTensor, tolerances[0] as number, JSON.stringify(p));
      }),
      runs(100),
    );
  });

  it("with the identity on either side changes nothing", () => {
    fc.assert(
      fc.property(size, size, seeds, (m, n, seed) => {
        const a = randomTensor([m, n], seed);
        expectClose(runtime.matmul(a, identity(n)), a, 0, `[${m}, ${n}] @ identity`);
        expectClose(runtime.matmul(identity(m), a), a, 0, `identity @ [${m}, ${n}]`);
        expectClose(
          runtime.matmul(identity(m), a, { transposeA: true }),
          a,
          0,
          `identity transposed @ [${m}, ${n}]`,
        );
      }),
      runs(30),
    );
  });

  it("(a b)^T = b^T a^T, and transposing in memory is transposing by option", () => {
    fc.assert(
      fc.property(problem, (p) => {
        const [a, b] = [randomTensor([p.m, p.k], p.seed), randomTensor([p.k, p.n], p.seed + 1)];
        const { tolerances } = calibrate("product", [a, b] as const, ([x, y], round) => [
          matmul(x, y, {}, round),
        ]);
        const tol = tolerances[0] as number;
        const ab = runtime.matmul(a, b);
        expectClose(transpose(runtime.matmul(transpose(b), transpose(a))), ab, tol, "(b^T a^T)^T");
        expectClose(runtime.matmul(transpose(a), b, { transposeA: true }), ab, tol, "a transposed");
        expectClose(runtime.matmul(a, transpose(b), { transposeB: true }), ab, tol, "b transposed");
        expectClose(transpose(runtime.matmul(b, a, { transposeA: true, transposeB: true })), ab, tol, "both");
      }),
      runs(30),
    );
  });

  it("of a batch is that of its entries alone, bit for bit", () => {
    fc.assert(
      fc.property(problem, (p) => {
        const [a, b] = [randomTensor([3, p.m, p.k], p.seed), randomTensor([p.k, p.n], p.seed + 1)];
        const all = runtime.matmul(a, b);
        for (let i = 0; i < 3; i++) {
          const one = runtime.matmul(
            { data: a.data.slice(i * p.m * p.k, (i + 1) * p.m * p.k), shape: [p.m, p.k] },
            b,
          );
          expectSame(
            one,
            { data: all.data.slice(i * p.m * p.n, (i + 1) * p.m * p.n), shape: [p.m, p.n] },
            `entry ${i}`,
          );
        }
      }),
      runs(20),
    );
  });

  it("of one row is what it is among others, bit for bit", () => {
    fc.assert(
      fc.property(problem, fc.nat(), ({ m, n, k, transposeB, seed }, nth) => {
        const i = nth % m;
        const a = randomTensor([m, k], seed);
        const b = randomTensor(transposeB ? [n, k] : [k, n], seed + 1);
        const all = runtime.matmul(a, b, { transposeB });
        const row = { data: a.data.slice(i * k, (i + 1) * k), shape: [1, k] };
        const want = { data: all.data.slice(i * n, (i + 1) * n), shape: [1, n] };
        expectSame(runtime.matmul(row, b, { transposeB }), want, `row ${i} of ${m} x ${n} x ${k}`);
      }),
      runs(60),
    );
  });

  it("does not depend on what memory held before", () => {
    fc.assert(
      fc.property(problem, fc.constantFrom(NaN, Infinity, -1), (p, rubbish) => {
        const { a, b, c } = operands(p, p.seed);
        const want = runtime.matmul(a, b, optionsOf(p, c));
        expectSame(littered(variant, rubbish).matmul(a, b, optionsOf(p, c)), want, JSON.stringify(p));
      }),
      runs(40),
    );
  });
});

function identity(n: number): TestTensor {
  const data = new Float32Array(n * n);
  for (let i = 0; i < n; i++) data[i * n + i] = 1;
  return { data, shape: [n, n] };
}

function transpose({ data, shape }: { data: Float32Array; shape: readonly number[] }): TestTensor {
  const [m, n] = shape as [number, number];
  return { data: data.map((_, at) => data[(at % m) * n + Math.floor(at / m)] as number), shape: [n, m] };
}

import { expect, it } from "vitest";
import { matmul, type RefMatmulOptions } from "./reference/matmul.ts";
import type { RefTensor } from "./reference/rounding.ts";
import {
  blockSizes,
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  randomTensor,
  type TestTensor,
} from "./support.ts";

/** Each side of the register tile and the packing decisions, and a size that is a multiple of nothing. */
const sizes = [1, 2, 3, 4, 5, 6, 7, 8, 9, 11, 16, 17, 41, 97];

type Options = RefMatmulOptions & { c?: TestTensor };

/** op(a) of shape [m, k] as it lies in memory. */
const operand = (rows: number, columns: number, transposed: boolean, seed: number): TestTensor =>
  randomTensor(transposed ? [columns, rows] : [rows, columns], seed);

describeVariants("matmul", (runtime, variant) => {
  const check = (a: TestTensor, b: TestTensor, options: Options = {}): void => {
    const label = `[${a.shape}] @ [${b.shape}] ${JSON.stringify({ ...options, c: options.c?.shape })}`;
    const inputs = options.c ? [a, b, options.c] : [a, b];
    const { want, tolerances } = calibrate(label, inputs, ([x, y, c], round) => [
      matmul(x as TestTensor, y as TestTensor, c ? { ...options, c } : options, round),
    ]);
    expectClose(runtime.matmul(a, b, options), want[0] as RefTensor, tolerances[0] as number, label);
  };
  const each = (f: (transposeA: boolean, transposeB: boolean) => void): void => {
    for (const transposeA of [false, true]) for (const transposeB of [false, true]) f(transposeA, transposeB);
  };

  it("is right at every edge of the tiles, for all four transpositions", () => {
    each((transposeA, transposeB) => {
      for (const m of sizes) {
        for (const n of sizes) {
          const k = sizes[(m * 7 + n * 3) % sizes.length] as number;
          const [a, b] = [operand(m, k, transposeA, m), operand(k, n, transposeB, n)];
          check(a, b, { transposeA, transposeB });
        }
      }
    });
  });

  it("is right across the blocks of k, m and n", () => {
    const { KC, MC, NC } = blockSizes(variant);
    each((transposeA, transposeB) => {
      for (const [m, n, k] of [
        [3, 9, 2 * KC + 1],
        [1, 2 * KC, KC + 1],
        [70, 130, KC + 5],
        [70, NC + 7, 40],
        [2 * MC + 1, 140, 130],
      ] as const) {
        check(operand(m, k, transposeA, 1), operand(k, n, transposeB, 2), { transposeA, transposeB });
      }
    });
  });

  it("is right on both sides of every change of way", () => {
    const { DIRECT_SIZE, FEW_ROWS, FEW_ROWS_SUMS } = blockSizes(variant);
    const columns = DIRECT_SIZE / 128;
    each((transposeA, transposeB) => {
      for (const [m, n, k] of [
        [FEW_ROWS, columns + 1, 128],
        [FEW_ROWS + 1, columns + 1, 128],
        [FEW_ROWS + 1, columns, 128],
        [4, FEW_ROWS_SUMS / 4, 20],
        [4, FEW_ROWS_SUMS / 4 + 1, 20],
      ] as const) {
        check(operand(m, k, transposeA, 1), operand(k, n, transposeB, 2), { transposeA, transposeB });
      }
    });
  });

  it("is exact where every partial sum is an integer float32 holds", () => {
    const integers = (shape: number[], seed: number): TestTensor => {
      const t = randomTensor(shape, seed);
      return { data: t.data.map((v) => Math.round(v * 4)), shape };
    };
    for (const [m, n, k] of [
      [17, 23, 300],
      [130, 9, 270],
      [1, 257, 64],
      [65, 1, 129],
    ] as const) {
      const [a, b] = [integers([m, k], m), integers([k, n], n)];
      expectClose(runtime.matmul(a, b), matmul(a, b), 0, `${m} x ${n} x ${k}`);
    }
  });

  it("broadcasts batches as numpy does", () => {
    const batches = [
      [[], [3]],
      [[3], []],
      [[2, 3], [3]],
      [[2, 1], [3]],
      [
        [2, 1],
        [1, 4],
      ],
      [
        [2, 3],
        [2, 3],
      ],
      [[1], [5]],
    ];
    for (const [a, b] of batches as [number[], number[]][]) {
      check(randomTensor([...a, 5, 7], 1), randomTensor([...b, 7, 6], 2));
      check(randomTensor([...a, 7, 5], 1), randomTensor([...b, 6, 7], 2), {
        transposeA: true,
        transposeB: true,
      });
    }
  });

  it("takes 1-D operands as numpy does", () => {
    check(randomTensor([7], 1), randomTensor([7], 2));
    check(randomTensor([7], 1), randomTensor([7, 3], 2));
    check(randomTensor([5, 7], 1), randomTensor([7], 2));
    check(randomTensor([4], 1), randomTensor([2, 4, 3], 2));
    check(randomTensor([2, 3, 4], 1), randomTensor([4], 2));
  });

  it("adds beta c, broadcast one way, to alpha times the product", () => {
    const [a, b] = [randomTensor([2, 6, 5], 1), randomTensor([5, 7], 2)];
    for (const shape of [[2, 6, 7], [6, 7], [1, 6, 7], [7], [1], [], [6, 1], [2, 1, 1], [2, 1, 7]]) {
      for (const [alpha, beta] of [
        [1, 1],
        [0.25, 0.35],
        [-2, 3],
        [1, -1],
        [0, 2],
        [3, 0],
      ] as const) {
        check(a, b, { alpha, beta, c: randomTensor(shape, 3) });
      }
      check(a, b, { c: randomTensor(shape, 4) });
    }
    check(a, b, { alpha: -0.75 });
  });

  it("never reads c for beta = 0, nor what out held", () => {
    for (const [m, n, k] of [
      [9, 11, 70],
      [45, 8, 300],
      [1, 3, 2],
    ] as const) {
      const [a, b] = [randomTensor([m, k], 1), randomTensor([k, n], 2)];
      const want = runtime.matmul(a, b);
      const poison = { data: new Float32Array(m * n).fill(NaN), shape: [m, n] };
      expectSame(runtime.matmul(a, b, { beta: 0, c: poison }), want, "c");
      using resident = runtime.tensor([m, n], poison.data);
      expectSame(runtime.matmul(a, b, { beta: 0, c: resident }), want, "resident c");
      runtime.matmul(a, b, { out: resident });
      expectSame(resident, want, "resident out");
      resident.data.fill(NaN);
      runtime.matmul(a, b, { beta: 0, c: resident, out: resident });
      expectSame(resident, want, "resident c that is out");
      expectSame(runtime.matmul(a, b, { out: poison }), want, "out");
    }
  });

  it("with alpha = 0 gives beta c, whatever a and b hold", () => {
    const [a, b, c] = [randomTensor([9, 70], 1), randomTensor([70, 11], 2), randomTensor([9, 11], 3)];
    a.data[5] = NaN;
    b.data[7] = Infinity;
    expectClose(runtime.matmul(a, b, { alpha: 0 }), { data: new Float32Array(99), shape: [9, 11] }, 0);
    expectClose(runtime.matmul(a, b, { alpha: 0, c }), c, 0);
  });

  it("with k = 0 gives beta c, and empty results for m = 0, n = 0 or an empty batch", () => {
    const zeros = (shape: number[]): TestTensor => ({
      data: new Float32Array(shape.reduce((p, n) => p * n, 1)),
      shape,
    });
    const c = randomTensor([3, 4], 1);
    expectSame(runtime.matmul(zeros([3, 0]), zeros([0, 4])), zeros([3, 4]));
    expectSame(runtime.matmul(zeros([3, 0]), zeros([0, 4]), { c, beta: 2 }), {
      data: c.data.map((v) => 2 * v),
      shape: [3, 4],
    });
    expectSame(runtime.matmul(zeros([0, 5]), zeros([5, 4])), zeros([0, 4]));
    expectSame(runtime.matmul(zeros([3, 5]), zeros([5, 0])), zeros([3, 0]));
    expectSame(runtime.matmul(zeros([0, 3, 5]), zeros([5, 2])), zeros([0, 3, 2]));
  });

  it("writes into out, the same bits as without", () => {
    const [a, b, c] = [randomTensor([2, 7, 9], 1), randomTensor([2, 9, 13], 2), randomTensor([13], 3)];
    const want = runtime.matmul(a, b, { alpha: 0.5, c, beta: 2 });
    const out = { data: new Float32Array(want.data.length).fill(NaN), shape: want.shape };
    expect(runtime.matmul(a, b, { alpha: 0.5, c, beta: 2, out })).toBe(out);
    expectSame(out, want);
  });

  it("accumulates in place where out is c", () => {
    const [a, b] = [randomTensor([7, 9], 1), randomTensor([9, 13], 2)];
    const c = randomTensor([7, 13], 3);
    const want = runtime.matmul(a, b, { c, beta: 0.5 });
    runtime.matmul(a, b, { c, beta: 0.5, out: c });
    expectSame(c, want);
  });

  it("carries NaN and Infinity to the rows and columns they touch, and no further", () => {
    for (const [m, n, k] of [
      [6, 9, 5],
      [50, 9, 20],
      [1, 5, 3],
      [9, 1, 12],
    ] as const) {
      const [a, b] = [randomTensor([m, k], 1), randomTensor([k, n], 2)];
      const clean = runtime.matmul(a, b);
      a.data[(m - 1) * k] = NaN; // last row
      b.data[(k - 1) * n] = Infinity; // first column
      const { data } = runtime.matmul(a, b);
      data.forEach((got, i) => {
        const touched = Math.floor(i / n) === m - 1 || i % n === 0;
        if (touched) expect(Number.isFinite(got), `element ${i} of ${m} x ${n}`).toBe(false);
        else expect(got, `element ${i} of ${m} x ${n}`).toBe(clean.data[i]);
      });
    }
  });

  it("gives the same bits for resident operands, and a resident result", () => {
    const [a, b] = [randomTensor([3, 20, 33], 1), randomTensor([33, 21], 2)];
    using ra = runtime.tensor(a.shape, a.data);
    using rb = runtime.tensor(b.shape, b.data);
    const got = runtime.matmul(ra, rb);
    expectSame({ data: got.data.slice(), shape: [...got.shape] }, runtime.matmul(a, b));
    got.dispose();
  });
});

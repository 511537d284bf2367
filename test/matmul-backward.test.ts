import fc from "fast-check";
import { expect, it } from "vitest";
import type { MatmulGradients, ResidentTensor } from "../src/index.ts";
import { lengths, runs } from "./arbitraries.ts";
import { matmul, matmulBackward, type RefMatmulOptions } from "./reference/matmul.ts";
import type { RefTensor, Rounding } from "./reference/rounding.ts";
import {
  blockSizes,
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  littered,
  randomTensor,
  type TestTensor,
  zeros,
} from "./support.ts";

type Options = RefMatmulOptions & { c?: TestTensor };

const names = ["dA", "dB", "dC"] as const;

/** dA and dB, and dC where there is one. */
const listed = (gradients: { dA: RefTensor; dB: RefTensor; dC?: RefTensor }): RefTensor[] =>
  names.flatMap((name) => gradients[name] ?? []);

describeVariants("matmulBackward", (runtime, variant) => {
  const upstream = (a: TestTensor, b: TestTensor, options: Options, seed = 9): TestTensor =>
    randomTensor(matmul(a, b, options).shape, seed);

  const check = (a: TestTensor, b: TestTensor, options: Options = {}): void => {
    const label = `[${a.shape}] @ [${b.shape}] ${JSON.stringify({ ...options, c: options.c?.shape })}`;
    const dOut = upstream(a, b, options);
    const compute = ([d, x, y]: readonly TestTensor[], round: Rounding): RefTensor[] =>
      listed(matmulBackward(d as TestTensor, x as TestTensor, y as TestTensor, options, round));
    const { want, tolerances } = calibrate(`backward ${label}`, [dOut, a, b], compute, { factor: 3 });
    const got = listed(runtime.matmulBackward({ dOut, a, b, ...options }));
    expect(got.length).toBe(want.length);
    got.forEach((gradient, i) => {
      expectClose(gradient, want[i] as RefTensor, tolerances[i] as number, `${names[i]} of ${label}`);
    });
  };
  const each = (f: (transposeA: boolean, transposeB: boolean) => void): void => {
    for (const transposeA of [false, true]) for (const transposeB of [false, true]) f(transposeA, transposeB);
  };
  const operand = (batch: number[], rows: number, columns: number, transpose: boolean, seed: number) =>
    randomTensor([...batch, ...(transpose ? [columns, rows] : [rows, columns])], seed);

  it("is right at the edges of the tiles, for all four transpositions", () => {
    each((transposeA, transposeB) => {
      for (const [m, n, k] of [
        [1, 1, 1],
        [3, 5, 7],
        [8, 9, 17],
        [41, 1, 6],
        [1, 41, 33],
        [34, 35, 36],
      ] as const) {
        const [a, b] = [operand([], m, k, transposeA, m), operand([], k, n, transposeB, n)];
        check(a, b, { transposeA, transposeB });
      }
    });
  });

  it("is right across the blocks of the inner lengths", () => {
    const { KC, FEW_ROWS } = blockSizes(variant);
    each((transposeA, transposeB) => {
      for (const [m, n, k] of [
        [KC + 3, 9, 5],
        [5, KC + 3, 9],
        [FEW_ROWS + 1, FEW_ROWS + 2, 150],
      ] as const) {
        const [a, b] = [operand([], m, k, transposeA, m), operand([], k, n, transposeB, n)];
        check(a, b, { transposeA, transposeB });
      }
    });
  });

  it("sums over the batch axes along which an operand was broadcast", () => {
    for (const [batchA, batchB] of [
      [[3], []],
      [[], [3]],
      [[2, 3], []],
      [[2, 3], [3]],
      [[3], [2, 3]],
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
      [[4], [1]],
    ] as [number[], number[]][]) {
      each((transposeA, transposeB) => {
        check(operand(batchA, 5, 7, transposeA, 1), operand(batchB, 7, 6, transposeB, 2), {
          transposeA,
          transposeB,
          alpha: 0.5,
        });
      });
    }
  });

  it("takes vectors on either side", () => {
    check(randomTensor([7], 1), randomTensor([7], 2));
    check(randomTensor([7], 1), randomTensor([7, 3], 2));
    check(randomTensor([5, 7], 1), randomTensor([7], 2));
    check(randomTensor([4], 1), randomTensor([2, 4, 3], 2));
    check(randomTensor([2, 3, 4], 1), randomTensor([4], 2));
    check(randomTensor([4], 1), randomTensor([2, 3, 4], 2), { transposeB: true });
    check(randomTensor([2, 4, 3], 1), randomTensor([4], 2), { transposeA: true });
  });

  it("gives dC = beta dOut, summed to the shape of c", () => {
    const [a, b] = [randomTensor([2, 6, 5], 1), randomTensor([5, 7], 2)];
    for (const shape of [[2, 6, 7], [6, 7], [1, 6, 7], [7], [1], [], [6, 1], [2, 1, 1], [2, 1, 7]]) {
      check(a, b, { c: randomTensor(shape, 3) });
      check(a, b, { alpha: -2, beta: 0.35, c: randomTensor(shape, 3) });
    }
    expect(runtime.matmulBackward({ dOut: upstream(a, b, {}), a, b })).not.toHaveProperty("dC");
  });

  it("is the derivative of matmul", () => {
    const [a, b, c] = [randomTensor([2, 2, 3], 1), randomTensor([3, 2], 2), randomTensor([2], 3)];
    const options = { alpha: 0.7, beta: -0.4, c };
    const dOut = upstream(a, b, options);
    const loss = (x: RefTensor, y: RefTensor, z: RefTensor): number =>
      dOut.data.reduce((sum, d, i) => sum + d * (matmul(x, y, { ...options, c: z }).data[i] as number), 0);
    const got = runtime.matmulBackward({ dOut, a, b, ...options });
    const moved = (t: TestTensor, at: number, by: number): RefTensor => ({
      data: Float64Array.from(t.data, (v, i) => (i === at ? v + by : v)),
      shape: t.shape,
    });
    const slope = (f: (by: number) => number): number => (f(1e-4) - f(-1e-4)) / 2e-4;
    got.dA.data.forEach((d, i) => {
      expect(d).toBeCloseTo(
        slope((by) => loss(moved(a, i, by), b, c)),
        4,
      );
    });
    got.dB.data.forEach((d, i) => {
      expect(d).toBeCloseTo(
        slope((by) => loss(a, moved(b, i, by), c)),
        4,
      );
    });
    got.dC.data.forEach((d, i) => {
      expect(d).toBeCloseTo(
        slope((by) => loss(a, b, moved(c, i, by))),
        4,
      );
    });
  });

  it("is zeros for a factor of 0, whatever the operands hold", () => {
    const [a, b] = [randomTensor([3, 4], 1), randomTensor([4, 5], 2)];
    const dOut = { data: new Float32Array(15).fill(NaN), shape: [3, 5] };
    const got = runtime.matmulBackward({ dOut, a, b, c: zeros(5), alpha: 0, beta: 0 });
    expectClose(got.dA, zeros(3, 4), 0);
    expectClose(got.dB, zeros(4, 5), 0);
    expectClose(got.dC, zeros(5), 0);
  });

  it("gives zeros for sums over nothing and empty gradients for empty operands", () => {
    const shapes = [
      [
        [0, 4],
        [4, 5],
        [0, 5],
      ],
      [
        [3, 0],
        [0, 5],
        [3, 5],
      ],
      [
        [3, 4],
        [4, 0],
        [3, 0],
      ],
      [
        [0, 3, 4],
        [4, 5],
        [0, 3, 5],
      ],
      [
        [3, 4],
        [0, 4, 5],
        [0, 3, 5],
      ],
      [
        [0, 2, 3, 4],
        [2, 4, 5],
        [0, 2, 3, 5],
      ],
      [[0], [0], []],
    ] as const;
    for (const [shapeA, shapeB, shape] of shapes) {
      for (const rubbish of [NaN, 1]) {
        const [a, b] = [zeros(...shapeA), zeros(...shapeB)];
        const inputs = { dOut: randomTensor(shape, 1), a, b, c: zeros() };
        const got = littered(variant, rubbish).matmulBackward(inputs);
        const label = `[${shapeA}] @ [${shapeB}]`;
        expectClose(got.dA, zeros(...shapeA), 0, `dA of ${label}`);
        expectClose(got.dB, zeros(...shapeB), 0, `dB of ${label}`);
        expect(got.dC.shape).toEqual([]);
      }
    }
  });

  it("gives resident gradients, the same bits, where all operands are resident", () => {
    const [a, b, c] = [randomTensor([3, 6, 9], 1), randomTensor([9, 13], 2), randomTensor([13], 3)];
    const dOut = upstream(a, b, { c });
    const want = runtime.matmulBackward({ dOut, a, b, c });
    const [rd, ra, rb, rc] = [dOut, a, b, c].map((t) => runtime.tensor(t.shape, t.data)) as [
      ResidentTensor,
      ResidentTensor,
      ResidentTensor,
      ResidentTensor,
    ];
    const got: MatmulGradients<ResidentTensor> = runtime.matmulBackward({ dOut: rd, a: ra, b: rb, c: rc });
    for (const name of names) {
      const tensor = got[name] as ResidentTensor;
      expectSame({ data: tensor.data, shape: [...tensor.shape] }, want[name], name);
      tensor.dispose();
    }
    const mixed = runtime.matmulBackward({ dOut: rd, a: ra, b: rb, c });
    expect(mixed.dA).not.toHaveProperty("dispose");
    expectSame(mixed.dB, want.dB);
    for (const tensor of [rd, ra, rb, rc]) tensor.dispose();
  });

  it("equals the reference for any shape and options, whatever memory held before", () => {
    const size = fc.constantFrom(...lengths);
    const problem = fc
      .record({
        m: size,
        n: size,
        k: size,
        batches: fc.constantFrom<[number[], number[]][]>([[], []], [[3], []], [[], [2]], [[2, 1], [3]]),
        transposeA: fc.boolean(),
        transposeB: fc.boolean(),
        alpha: fc.constantFrom(1, -0.5),
        c: fc.option(fc.tuple(fc.boolean(), fc.boolean())),
        seed: fc.integer({ min: 1, max: 2 ** 30 }),
      })
      .filter(({ m, n, k }) => m * n * k <= 40_000);
    fc.assert(
      fc.property(problem, ({ m, n, k, batches, transposeA, transposeB, alpha, c, seed }) => {
        const a = operand(batches[0], m, k, transposeA, seed);
        const b = operand(batches[1], k, n, transposeB, seed + 1);
        const addend = c && { c: randomTensor([c[0] ? m : 1, c[1] ? n : 1], seed + 2), beta: 3 };
        const options = { transposeA, transposeB, alpha, ...addend };
        check(a, b, options);
        const inputs = { dOut: upstream(a, b, options), a, b, ...options };
        const [got, want] = [littered(variant, NaN), runtime].map((r) => listed(r.matmulBackward(inputs)));
        got?.forEach((gradient, i) => {
          expectSame(gradient, want?.[i] as RefTensor, names[i]);
        });
      }),
      runs(40),
    );
  });
});

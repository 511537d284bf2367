import fc from "fast-check";
import { expect, it } from "vitest";
import { lengths, runs } from "./arbitraries.ts";
import * as reference from "./reference/norm.ts";
import { float64, type RefTensor, type Rounding } from "./reference/rounding.ts";
import {
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  littered,
  randomTensor,
  type TestTensor,
  zeros,
} from "./support.ts";

interface Weights {
  weight?: TestTensor;
  bias?: TestTensor;
}
type Options = Weights & { axis?: number; eps?: number; statistics?: Rounding };

/** Held to plain float32 with statistics in float64: those of float32 are poor there, or overflow. */
const exactStatistics = { statistics: float64 };

const moved = ({ data, shape }: TestTensor, factor: number, shift: number): TestTensor => ({
  data: data.map((v) => v * factor + shift),
  shape,
});

describeVariants("layerNorm, rmsNorm", (runtime, variant) => {
  const checkLayerNorm = (x: TestTensor, { weight, bias, statistics, ...rest }: Options = {}): void => {
    const label = `layerNorm of [${x.shape}] ${JSON.stringify(rest)} ${statistics?.name}`;
    const { want, tolerances } = calibrate(
      `${label} ${weight !== undefined} ${bias !== undefined}`,
      [x, ...(weight ? [weight] : []), ...(bias ? [bias] : [])],
      ([t, ...others], round) => {
        const all = { weight: weight && others[0], bias: bias && others.at(-1), ...rest, statistics };
        const { out, mean, rstd } = reference.layerNorm(t as TestTensor, all, round);
        return [out, mean, rstd];
      },
    );
    const options = { ...(weight && { weight }), ...(bias && { bias }), ...rest };
    const got = runtime.layerNorm(x, { ...options, returnStats: true });
    [got.out, got.mean, got.rstd].forEach((tensor, i) => {
      const name = ["out", "mean", "rstd"][i];
      expectClose(tensor, want[i] as RefTensor, tolerances[i] as number, `${name} of ${label}`);
    });
    expectSame(runtime.layerNorm(x, options), got.out, "without statistics");
  };

  const checkRmsNorm = (x: TestTensor, { weight, axis, eps, statistics }: Options = {}): void => {
    const rest = { ...(axis !== undefined && { axis }), ...(eps !== undefined && { eps }) };
    const label = `rmsNorm of [${x.shape}] ${JSON.stringify(rest)} ${weight !== undefined} ${statistics?.name}`;
    const { want, tolerances } = calibrate(label, weight ? [x, weight] : [x], ([t, w], round) => [
      reference.rmsNorm(t as TestTensor, { weight: w, ...rest, statistics }, round),
    ]);
    const got = runtime.rmsNorm(x, { ...(weight && { weight }), ...rest });
    expectClose(got, want[0] as RefTensor, tolerances[0] as number, label);
  };

  const weightsOf = (shape: number[], seed: number): Weights[] => {
    const [weight, bias] = [randomTensor(shape, seed), randomTensor(shape, seed + 1)];
    return [{}, { weight }, { bias }, { weight, bias }];
  };

  it("are right for rows of every length", () => {
    for (const n of [1, 2, 3, 4, 5, 7, 8, 9, 11, 12, 15, 16, 17, 31, 33, 64, 97, 257, 1025]) {
      for (const weights of weightsOf([n], n)) {
        checkLayerNorm(randomTensor([5, n], n), weights);
        if (!weights.bias) checkRmsNorm(randomTensor([5, n], n), weights);
      }
    }
  });

  it("normalise the axes from axis on together", () => {
    const shape = [2, 3, 4, 5];
    for (let axis = -4; axis < 4; axis++) {
      for (const weights of weightsOf(shape.slice(axis), 3)) {
        checkLayerNorm(randomTensor(shape, 7), { axis, ...weights });
        if (!weights.bias) checkRmsNorm(randomTensor(shape, 7), { axis, ...weights });
      }
    }
  });

  it("take any eps, and 1e-5 and 2 ** -23 are the defaults", () => {
    const x = moved(randomTensor([3, 17], 1), 1e-3, 0);
    for (const eps of [0, 1e-12, 0.1, 1e4, 1e30]) {
      checkLayerNorm(x, { eps });
      checkRmsNorm(x, { eps });
    }
    expectSame(runtime.layerNorm(x), runtime.layerNorm(x, { eps: 1e-5 }));
    expectSame(runtime.rmsNorm(x), runtime.rmsNorm(x, { eps: 1.1920928955078125e-7 }));
  });

  it("lose no digits to a mean far from 0, nor to the length of a row", () => {
    for (const n of [33, 4096, 100_003]) {
      const x = moved(randomTensor([1, n], n), 1, 1000);
      checkLayerNorm(x, exactStatistics);
      checkRmsNorm(x, exactStatistics);
    }
  });

  it("are right for numbers of any size, also where their squares overflow float32", () => {
    for (const factor of [1e-30, 1e-6, 1e10, 1e25, 1e35]) {
      const x = moved(randomTensor([3, 21], 4), factor, 0);
      checkLayerNorm(x, exactStatistics);
      checkRmsNorm(x, exactStatistics);
    }
  });

  it("give bias for a constant row, and NaN with eps = 0", () => {
    const x = { data: new Float32Array(10).fill(0.1), shape: [2, 5] };
    const bias = randomTensor([5], 1);
    const want = { data: Float32Array.of(...bias.data, ...bias.data), shape: [2, 5] };
    expectClose(runtime.layerNorm(x, { weight: randomTensor([5], 2), bias }), want, 1e-6);
    expect(runtime.rmsNorm(zeros(1, 3), { eps: 0 }).data).toEqual(new Float32Array(3).fill(NaN));
    expect(runtime.layerNorm(zeros(1, 3), { eps: 0 }).data).toEqual(new Float32Array(3).fill(NaN));
  });

  it("carry NaN and Infinity to their row alone, from any place in it", () => {
    for (let n = 1; n <= 19; n++) {
      const clean = randomTensor([3, n], n);
      const row = (t: TestTensor, i: number) => t.data.slice(i * n, (i + 1) * n);
      const [wantLayer, wantRms] = [runtime.layerNorm(clean), runtime.rmsNorm(clean)];
      for (const value of [NaN, Infinity, -Infinity]) {
        for (let place = 0; place < n; place++) {
          const x = { data: clean.data.slice(), shape: clean.shape };
          x.data[n + place] = value;
          const [layer, rms] = [runtime.layerNorm(x), runtime.rmsNorm(x)];
          for (const i of [0, 2]) {
            expect(row(layer, i)).toEqual(row(wantLayer, i));
            expect(row(rms, i)).toEqual(row(wantRms, i));
          }
          expect(row(layer, 1).every(Number.isNaN), `${value} at ${place} of ${n}`).toBe(true);
          expect(rms.data[n + place], `${value} at ${place} of ${n}`).toBeNaN();
        }
      }
    }
  });

  it("give empty results for empty shapes, and NaN for the statistics of nothing", () => {
    expectSame(runtime.layerNorm(zeros(0, 3)), zeros(0, 3));
    expectSame(runtime.rmsNorm(zeros(3, 0)), zeros(3, 0));
    expectSame(runtime.rmsNorm(zeros(2 ** 28, 2 ** 28, 0)), zeros(2 ** 28, 2 ** 28, 0));
    const nothing = { data: new Float32Array(3).fill(NaN), shape: [3, 1] };
    const got = runtime.layerNorm(zeros(3, 0), { weight: zeros(0), bias: zeros(0), returnStats: true });
    expectSame(got.out, zeros(3, 0));
    expectSame(got.mean, nothing);
    expectSame(got.rstd, nothing);
    expectSame(runtime.layerNorm(zeros(0, 3), { returnStats: true }).mean, zeros(0, 1));
  });

  it("write into out, the same bits as without, and out may be the input", () => {
    const x = randomTensor([4, 3, 7], 1);
    const [weight, bias] = [randomTensor([3, 7], 2), randomTensor([3, 7], 3)];
    const options = { weight, bias, axis: 1 };
    const want = runtime.layerNorm(x, options);
    const out = { data: new Float32Array(84).fill(NaN), shape: [4, 3, 7] };
    expect(runtime.layerNorm(x, { ...options, out })).toBe(out);
    expectSame(out, want);
    const both = runtime.layerNorm(x, { ...options, out, returnStats: true });
    expect(both.out).toBe(out);
    expect(both.mean.shape).toEqual([4, 1, 1]);
    const wantRms = runtime.rmsNorm(x, { weight, axis: 1 });
    using resident = runtime.tensor(x.shape, x.data);
    runtime.layerNorm(resident, { ...options, out: resident });
    expectSame({ data: resident.data, shape: [4, 3, 7] }, want);
    runtime.rmsNorm(x, { weight, axis: 1, out: x });
    expectSame(x, wantRms);
  });

  it("give resident results where x, weight and bias are resident, the same bits", () => {
    const x = randomTensor([4, 21], 1);
    const [weight, bias] = [randomTensor([21], 2), randomTensor([21], 3)];
    const want = runtime.layerNorm(x, { weight, bias, returnStats: true });
    using rx = runtime.tensor(x.shape, x.data);
    using rw = runtime.tensor([21], weight.data);
    using rb = runtime.tensor([21], bias.data);
    const got = runtime.layerNorm(rx, { weight: rw, bias: rb, returnStats: true });
    for (const name of ["out", "mean", "rstd"] as const) {
      expect(got[name].disposed).toBe(false);
      expectSame({ data: got[name].data, shape: [...got[name].shape] }, want[name], name);
      got[name].dispose();
    }
    expect(runtime.layerNorm(rx, { weight, bias: rb })).not.toHaveProperty("dispose");
    using rms = runtime.rmsNorm(rx, { weight: rw });
    expectSame({ data: rms.data, shape: [...rms.shape] }, runtime.rmsNorm(x, { weight }));
  });

  const problem = fc.record({
    shape: fc
      .array(fc.constantFrom(...lengths), { minLength: 1, maxLength: 3 })
      .filter((shape) => shape.reduce((p, n) => p * n, 1) <= 20_000),
    first: fc.nat(2),
    seed: fc.integer({ min: 1, max: 2 ** 30 }),
    kind: fc.nat(3),
    shift: fc.constantFrom(0, 0, 1, -30),
  });

  it("equal the reference for any shape and axis, whatever memory held before", () => {
    fc.assert(
      fc.property(problem, ({ shape, first, seed, kind, shift }) => {
        const axis = first % shape.length;
        const x = moved(randomTensor(shape, seed), 1, shift);
        const weights = weightsOf(shape.slice(axis), seed + 1)[kind] as Weights;
        checkLayerNorm(x, { axis, ...weights });
        checkRmsNorm(x, { axis, ...(weights.weight && { weight: weights.weight }) });
        const options = { axis, ...weights };
        expectSame(littered(variant, NaN).layerNorm(x, options), runtime.layerNorm(x, options));
      }),
      runs(40),
    );
  });

  it("give a row the bits it has alone, and do not see a factor that is a power of two", () => {
    fc.assert(
      fc.property(problem, fc.nat(), ({ shape, seed, shift }, nth) => {
        const n = shape.at(-1) as number;
        const x = moved(randomTensor(shape, seed), 1, shift);
        const i = nth % (x.data.length / n);
        const row = { data: x.data.slice(i * n, (i + 1) * n), shape: [n] };
        for (const apply of [runtime.layerNorm, runtime.rmsNorm] as const) {
          const all = apply(x, { eps: 0 });
          const one = apply(row, { eps: 0 });
          expectSame(one, { data: all.data.slice(i * n, (i + 1) * n), shape: [n] });
          expectClose(apply(moved(row, 4, 0), { eps: 0 }), one, 0, "times 4");
        }
      }),
      runs(40),
    );
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { rotaryTables } from "../src/index.ts";
import { runs } from "./arbitraries.ts";
import { type RefRotaryOptions, rotaryEmbedding } from "./reference/rotary.ts";
import { float32 } from "./reference/rounding.ts";
import {
  describeVariants,
  expectClose,
  expectSame,
  littered,
  randomTensor,
  type TestTensor,
  zeros,
} from "./support.ts";

describeVariants("rotaryEmbedding", (runtime, variant) => {
  /** Nothing is fused, so plain float32 has the same bits. */
  const check = (x: TestTensor, cos: TestTensor, sin: TestTensor, options: RefRotaryOptions = {}): void => {
    const label = `[${x.shape}] cos [${cos.shape}] ${JSON.stringify(options)}`;
    const want = rotaryEmbedding(x, cos, sin, options, float32);
    expectSame(runtime.rotaryEmbedding(x, cos, sin, options), want, label);
  };
  const tables = (rows: number, dim: number): [TestTensor, TestTensor] => {
    const { cos, sin } = runtime.rotaryTables(rows, dim);
    return [cos, sin];
  };

  it("turns rows of every width, of halves and of neighbours", () => {
    for (let d = 2; d <= 40; d += 2) {
      const x = randomTensor([2, 3, 5, d], d);
      for (const interleaved of [false, true]) check(x, ...tables(5, d), { interleaved });
    }
  });

  it("turns the first rotaryDim elements and passes the others through", () => {
    for (const d of [7, 8, 33]) {
      const x = randomTensor([1, 2, 3, d], d);
      for (let rotaryDim = 2; rotaryDim <= d; rotaryDim += 2) {
        for (const interleaved of [false, true]) {
          check(x, ...tables(3, rotaryDim), { interleaved, rotaryDim });
          const inPlace = { data: x.data.slice(), shape: x.shape };
          const [cos, sin] = tables(3, rotaryDim);
          using resident = runtime.tensor(x.shape, x.data);
          runtime.rotaryEmbedding(resident, cos, sin, { interleaved, rotaryDim, out: resident });
          runtime.rotaryEmbedding(inPlace, cos, sin, { interleaved, rotaryDim, out: inPlace });
          const want = runtime.rotaryEmbedding(x, cos, sin, { interleaved, rotaryDim });
          expectSame(inPlace, want, "in place");
          expectSame({ data: resident.data, shape: x.shape }, want, "in place, resident");
        }
      }
    }
  });

  it("reads positions from ids, an offset or the index, in either layout", () => {
    const [cos, sin] = tables(50, 12);
    const batched = Int32Array.of(49, 3, 0, 7, 7, 20);
    for (const layout of ["bhld", "blhd"] as const) {
      const x = randomTensor(layout === "bhld" ? [2, 4, 3, 12] : [2, 3, 4, 12], 1);
      check(x, cos, sin, { layout });
      check(x, cos, sin, { layout, positionOffset: 47 });
      check(x, cos, sin, { layout, positionIds: batched });
      check(x, cos, sin, { layout, positionIds: batched.slice(0, 3) });
      check(x, randomTensor([2, 3, 6], 2), randomTensor([2, 3, 6], 3), { layout });
    }
  });

  it("takes any number of batch axes, or none", () => {
    const [cos, sin] = tables(9, 6);
    check(randomTensor([9, 6], 1), cos, sin);
    check(randomTensor([2, 9, 6], 1), cos, sin);
    check(randomTensor([9, 2, 6], 1), cos, sin, { layout: "blhd" });
    const x = randomTensor([2, 3, 1, 2, 6], 1);
    check(x, cos, sin, { positionIds: Int32Array.from({ length: 12 }, (_, i) => i % 9) });
    check(x, randomTensor([2, 3, 2, 3], 2), randomTensor([2, 3, 2, 3], 3));
  });

  it("with an offset gives what the whole sequence has there, one token at a time", () => {
    const [cos, sin] = tables(20, 16);
    const x = randomTensor([1, 1, 20, 16], 4);
    const all = runtime.rotaryEmbedding(x, cos, sin);
    using residentCos = runtime.tensor(cos.shape, cos.data);
    using residentSin = runtime.tensor(sin.shape, sin.data);
    for (let i = 0; i < 20; i++) {
      const token = { data: x.data.slice(i * 16, (i + 1) * 16), shape: [1, 1, 1, 16] };
      const want = { data: all.data.slice(i * 16, (i + 1) * 16), shape: [1, 1, 1, 16] };
      const options = { positionOffset: i };
      expectSame(runtime.rotaryEmbedding(token, cos, sin, options), want);
      expectSame(runtime.rotaryEmbedding(token, residentCos, residentSin, options), want);
      const own = runtime.rotaryTables(1, 16, { offset: i });
      expectSame(runtime.rotaryEmbedding(token, own.cos, own.sin), want);
    }
  });

  it("makes dot products depend on the distance of positions alone", () => {
    const [cos, sin] = tables(64, 32);
    const [q, k] = [randomTensor([1, 32], 1), randomTensor([1, 32], 2)];
    const score = (i: number, j: number): number => {
      const a = runtime.rotaryEmbedding(q, cos, sin, { positionOffset: i }).data;
      const b = runtime.rotaryEmbedding(k, cos, sin, { positionOffset: j }).data;
      return a.reduce((sum, ai, n) => sum + ai * (b[n] as number), 0);
    };
    for (const shift of [1, 17, 40]) expect(score(5 + shift, 2 + shift)).toBeCloseTo(score(5, 2), 4);
    expect(Math.abs(score(5, 2) - score(5, 3))).toBeGreaterThan(1e-3);
  });

  it("takes empty tensors, and keeps NaN and Infinity to their pairs", () => {
    const [cos, sin] = tables(3, 4);
    for (const shape of [
      [0, 2, 3, 4],
      [2, 0, 3, 4],
      [2, 2, 0, 4],
    ])
      expectSame(runtime.rotaryEmbedding(zeros(...shape), cos, sin), zeros(...shape));
    const x = { data: Float32Array.of(1, NaN, 2, 3, Infinity, 4, 5, 6), shape: [2, 4] };
    check(x, cos, sin);
    check(x, cos, sin, { interleaved: true });
  });

  it("writes into out, and is resident where x, cos and sin are", () => {
    const [cos, sin] = tables(5, 6);
    const x = randomTensor([2, 5, 6], 1);
    const want = runtime.rotaryEmbedding(x, cos, sin);
    const out = { data: new Float32Array(60).fill(NaN), shape: [2, 5, 6] };
    expect(runtime.rotaryEmbedding(x, cos, sin, { out })).toBe(out);
    expectSame(out, want);
    using rx = runtime.tensor(x.shape, x.data);
    using rc = runtime.tensor(cos.shape, cos.data);
    using rs = runtime.tensor(sin.shape, sin.data);
    using got = runtime.rotaryEmbedding(rx, rc, rs);
    expectSame({ data: got.data, shape: [...got.shape] }, want);
    expect(runtime.rotaryEmbedding(rx, cos, sin)).not.toHaveProperty("dispose");
  });

  it("equals the reference for any shape and options, whatever memory held before", () => {
    const problem = fc.record({
      batch: fc.nat(3),
      heads: fc.nat(4),
      length: fc.nat(9),
      half: fc.integer({ min: 1, max: 20 }),
      rest: fc.nat(5),
      interleaved: fc.boolean(),
      layout: fc.constantFrom("bhld" as const, "blhd" as const),
      ids: fc.option(fc.boolean()),
      seed: fc.integer({ min: 1, max: 2 ** 30 }),
    });
    fc.assert(
      fc.property(problem, ({ batch, heads, length, half, rest, interleaved, layout, ids, seed }) => {
        const d = 2 * half + rest;
        const x = randomTensor(
          layout === "bhld" ? [batch, heads, length, d] : [batch, length, heads, d],
          seed,
        );
        const perToken = ids === null && seed % 2 === 0;
        const shape = perToken ? [batch, length, half] : [12, half];
        const [cos, sin] = [randomTensor(shape, seed + 1), randomTensor(shape, seed + 2)];
        const count = (ids === true ? batch : 1) * length;
        const positionIds = Int32Array.from({ length: count }, (_, i) => (seed + 5 * i) % 12);
        const options = { interleaved, layout, rotaryDim: 2 * half, ...(ids !== null && { positionIds }) };
        check(x, cos, sin, options);
        const want = rotaryEmbedding(x, cos, sin, options, float32);
        expectSame(littered(variant, NaN).rotaryEmbedding(x, cos, sin, options), want);
      }),
      runs(60),
    );
  });
});

describe("rotaryTables", () => {
  it("are the cosines and sines of p * base ** (-2 j / rotaryDim)", () => {
    for (const [base, offset] of [
      [10000, 0],
      [500000, 100_000],
      [2, -3],
    ] as const) {
      const { cos, sin } = rotaryTables(7, 10, { base, offset });
      expect([cos.shape, sin.shape]).toEqual([
        [7, 5],
        [7, 5],
      ]);
      for (let i = 0; i < 7; i++) {
        for (let j = 0; j < 5; j++) {
          const angle = (i + offset) / base ** ((2 * j) / 10);
          expect(cos.data[i * 5 + j]).toBeCloseTo(Math.cos(angle), 6);
          expect(sin.data[i * 5 + j]).toBeCloseTo(Math.sin(angle), 6);
        }
      }
    }
  });

  it("begin with no turn, have the defaults that are documented, and may be empty", () => {
    const { cos, sin } = rotaryTables(1, 8);
    expectClose(cos, { data: [1, 1, 1, 1], shape: [1, 4] }, 0);
    expectClose(sin, zeros(1, 4), 0);
    expect(rotaryTables(5, 8)).toEqual(rotaryTables(5, 8, { base: 10000, offset: 0 }));
    expect(rotaryTables(0, 2).cos).toEqual({ data: new Float32Array(0), shape: [0, 1] });
  });
});

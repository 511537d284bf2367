import fc from "fast-check";
import { expect, it } from "vitest";
import type { AttentionOptions } from "../src/index.ts";
import { describeVariants, expectAttention, randomTensor } from "./support.ts";

const side = fc.constantFrom(-1, Number.POSITIVE_INFINITY, 0, 1, 3, 17, 300);

/** Sizes on both sides of the few-queries path and of a block of keys, and every option, alone and together. */
const problem = fc.record({
  batch: fc.constantFrom(1, 2),
  kvHeads: fc.constantFrom(1, 2),
  group: fc.constantFrom(1, 3),
  lq: fc.constantFrom(1, 2, 4, 5, 9, 17),
  lk: fc.constantFrom(1, 7, 16, 65, 241, 255),
  d: fc.constantFrom(1, 5, 16, 31),
  dv: fc.constantFrom(1, 6, 16),
  windowSize: fc.option(fc.tuple(side, side), { nil: undefined }),
  softcap: fc.constantFrom(undefined, 0, 0.5, 2, 30),
  slopes: fc.constantFrom("none", "heads", "batch"),
  sinks: fc.boolean(),
  isCausal: fc.boolean(),
  bottomRight: fc.boolean(),
  mask: fc.constantFrom("none", "boolean", "additive"),
  seed: fc.integer({ min: 1, max: 1000 }),
});
type Problem = typeof problem extends fc.Arbitrary<infer P> ? P : never;

function optionsOf(p: Problem): AttentionOptions {
  const heads = p.kvHeads * p.group;
  const mask = randomTensor([heads, p.lq, p.lk], p.seed + 3);
  const keep = { data: Uint8Array.from(mask.data, (x) => (x > -0.5 ? 1 : 0)), shape: mask.shape };
  const bias = { data: mask.data.map((x) => (x > 1 ? Number.NEGATIVE_INFINITY : x)), shape: mask.shape };
  return {
    isCausal: p.isCausal,
    softcap: p.softcap,
    windowSize: p.windowSize,
    causalAlignment: p.bottomRight ? "bottomRight" : "topLeft",
    attnMask: p.mask === "none" ? undefined : p.mask === "boolean" ? keep : bias,
    alibiSlopes:
      p.slopes === "none" ? undefined : randomTensor(p.slopes === "heads" ? [heads] : [p.batch, heads], 4),
    sinks: p.sinks ? randomTensor([heads], p.seed + 5) : undefined,
  };
}

describeVariants("windowSize, softcap, alibiSlopes, sinks", (runtime, variant) => {
  it("equal the reference in every combination", () => {
    fc.assert(
      fc.property(problem, (p) => {
        const q = randomTensor([p.batch, p.kvHeads * p.group, p.lq, p.d], p.seed);
        const k = randomTensor([p.batch, p.kvHeads, p.lk, p.d], p.seed + 1);
        const v = randomTensor([p.batch, p.kvHeads, p.lk, p.dv], p.seed + 2);
        expectAttention(runtime, q, k, v, optionsOf(p));
      }),
      { numRuns: variant === "debug" ? 40 : 120, seed: 20261130 },
    );
  });

  it("a sink joins the denominator only, also where no key is left", () => {
    const q = { data: new Float32Array(2 * 8), shape: [2, 1, 8] };
    const v = { data: Float32Array.of(2, 4), shape: [1, 2, 1] };
    const k = { data: new Float32Array(2 * 8), shape: [1, 2, 8] };
    const sinks = { data: Float32Array.of(Math.log(2), -Infinity), shape: [2] };
    const seen = runtime.scaledDotProductAttention(q, k, v, { sinks, returnLse: true });
    expect(seen.out.data[0]).toBeCloseTo(6 / 4, 6); // weights 1/4, 1/4 and 1/2 for the sink
    expect(seen.out.data[1]).toBe(3);
    expect(seen.lse.data[0]).toBeCloseTo(Math.log(4), 6);
    const kvLengths = Int32Array.of(0);
    const dead = runtime.scaledDotProductAttention(q, k, v, { sinks, kvLengths, returnLse: true });
    expect(dead.out.data).toEqual(new Float32Array(2));
    expect(dead.lse.data).toEqual(Float32Array.of(Math.log(2), -Infinity));
  });

  it("a row without keys is 0 whatever its sink, alone and among others", () => {
    for (const sink of [NaN, Infinity, 3]) {
      for (const lq of [1, 4, 5, 9]) {
        const [q, k] = [randomTensor([lq, 4], 1), randomTensor([6, 4], 2)];
        const options = {
          isCausal: true,
          queryOffset: -1,
          sinks: { data: Float32Array.of(sink), shape: [1] },
        };
        const { data } = runtime.scaledDotProductAttention(q, k, k, options);
        expect(Array.from(data.subarray(0, 4))).toEqual([0, 0, 0, 0]);
      }
    }
  });

  it("softcap: tanh is within 1.5 ulp", () => {
    const x = Float32Array.from({ length: 200_000 }, (_, i) => (i - 100_000) / 10_000);
    const one = { data: Float32Array.of(1), shape: [1, 1] };
    const options = { scale: 1, softcap: 1, returnLse: true } as const;
    const { lse } = runtime.scaledDotProductAttention({ data: x, shape: [x.length, 1] }, one, one, options);
    let worst = 0;
    x.forEach((value, i) => {
      const want = Math.tanh(value);
      const ulp = 2 ** (Math.floor(Math.log2(Math.abs(want) || 1)) - 23);
      worst = Math.max(worst, Math.abs((lse.data[i] as number) - want) / ulp);
    });
    expect(worst).toBeLessThan(1.5);
  });

  it("a window reads no key outside it", () => {
    const [q, k, v] = [randomTensor([600, 8], 1), randomTensor([600, 8], 2), randomTensor([600, 8], 3)];
    const bad = (x: { data: Float32Array; shape: number[] }) => ({
      ...x,
      data: x.data.map((y, i) => (i < 300 * 8 ? NaN : y)),
    });
    const options = { windowSize: [9, 0] } as const;
    const clean = runtime.scaledDotProductAttention(q, k, v, options);
    const poisoned = runtime.scaledDotProductAttention(q, bad(k), bad(v), options);
    expect(poisoned.data.subarray(310 * 8)).toEqual(clean.data.subarray(310 * 8));
    expect(poisoned.data[309 * 8 - 1]).toBeNaN();
  });
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { Runtime } from "../src/index.ts";
import { type AttentionProblem, attentionProblem, operands, runs } from "./arbitraries.ts";
import {
  entry,
  expectTouched,
  optionsOfEntry,
  optionsOfQuery,
  queryAt,
  seenByAny,
  swapAxes,
  touchedBy,
} from "./attention-rows.ts";
import type { RefTensor } from "./reference/rounding.ts";
import {
  type Calibrated,
  describeOptions,
  describeVariants,
  expectClose,
  expectDeadRows,
  expectSame,
  littered,
  solveAttention,
  type TestTensor,
} from "./support.ts";

const solve = (runtime: Runtime, { shape, options, seed }: AttentionProblem) =>
  runtime.scaledDotProductAttention(...operands(shape, seed), { ...options, returnLse: true });

const label = ({ shape, options }: AttentionProblem): string =>
  `${JSON.stringify(shape)} ${describeOptions(options)}`;

/** What the reference makes of a problem: output and log-sum-exp, and their tolerances. */
const solved = (problem: AttentionProblem): Calibrated =>
  solveAttention(label(problem), operands(problem.shape, problem.seed), problem.options);

const badNumber = fc.constantFrom(NaN, Infinity, -Infinity);

describe("the problems", () => {
  it("are of every kind, so that no property holds for want of cases", () => {
    const problems = fc.sample(attentionProblem(), { numRuns: 120, seed: runs(0).seed });
    const count = (is: (problem: AttentionProblem) => boolean): number => problems.filter(is).length;
    const mask = ({ options }: AttentionProblem) =>
      options.attnMask as { data: object; shape: number[] } | undefined;
    const kinds: Record<string, number> = {
      unmasked: count((p) => !mask(p)),
      boolean: count((p) => mask(p)?.data instanceof Uint8Array),
      additive: count((p) => mask(p)?.data instanceof Float32Array),
      "mask for each row": count((p) => (mask(p)?.shape.at(-2) ?? 1) > 1),
      "mask for all rows": count(
        (p) => (mask(p)?.shape.at(-1) ?? 1) > 1 && (mask(p)?.shape.at(-2) ?? 1) === 1,
      ),
      causal: count(({ options }) => options.isCausal === true),
      "bottom right": count(({ options }) => options.causalAlignment === "bottomRight"),
      offset: count(({ options }) => options.queryOffset !== undefined),
      lengths: count(({ options }) => options.kvLengths !== undefined),
      "scale 0": count(({ options }) => options.scale === 0),
      batch: count(({ shape }) => shape.batch > 1),
      grouped: count(({ shape }) => shape.heads > shape.kvHeads),
      "unseen keys": count((p) => seenByAny(p).includes(false)),
      "long keys": count(({ shape }) => shape.lk > 128),
    };
    for (const [kind, number] of Object.entries(kinds)) expect(number, kind).toBeGreaterThanOrEqual(5);
  });
});

describeVariants("attention, for any shape and options", (runtime, variant) => {
  it("equals the reference", () => {
    fc.assert(
      fc.property(attentionProblem(), (problem) => {
        const { want, tolerances } = solved(problem);
        const { out, lse } = solve(runtime, problem);
        expectClose(out, want[0] as RefTensor, tolerances[0] as number, `out of ${label(problem)}`);
        expectClose(lse, want[1] as RefTensor, tolerances[1] as number, `lse of ${label(problem)}`);
        expectDeadRows(out, want[1] as RefTensor, problem.options, label(problem));
      }),
      runs(120),
    );
  });

  it("of a batch of 4 is that of 4 single calls, bit for bit", () => {
    fc.assert(
      fc.property(attentionProblem(4), (problem) => {
        const all = solve(runtime, problem);
        const tensors = operands(problem.shape, problem.seed);
        for (let b = 0; b < 4; b++) {
          const [q, k, v] = tensors.map((t) => entry(t, b)) as [TestTensor, TestTensor, TestTensor];
          const options = { ...optionsOfEntry(problem.options, b), returnLse: true } as const;
          const one = runtime.scaledDotProductAttention(q, k, v, options);
          expectSame(one.out, entry(all.out, b), `out of entry ${b} of ${label(problem)}`);
          expectSame(one.lse, entry(all.lse, b), `lse of entry ${b} of ${label(problem)}`);
        }
      }),
      runs(40),
    );
  });

  it("of one query is what it is among others, bit for bit", () => {
    fc.assert(
      fc.property(attentionProblem(), fc.nat(), (problem, nth) => {
        const i = nth % problem.shape.lq;
        const all = solve(runtime, problem);
        const [q, k, v] = operands(problem.shape, problem.seed);
        const options = { ...optionsOfQuery(problem, i), returnLse: true } as const;
        const one = runtime.scaledDotProductAttention(queryAt(q, i), k, v, options);
        expectSame(one.out, queryAt(all.out, i), `out of query ${i} of ${label(problem)}`);
        const lse = { data: all.lse.data, shape: [...all.lse.shape, 1] };
        expectSame(
          { data: one.lse.data, shape: [...one.lse.shape, 1] },
          queryAt(lse, i),
          `lse of query ${i}`,
        );
      }),
      runs(80),
    );
  });

  it("in layout blhd is the transpose of bhld, bit for bit", () => {
    fc.assert(
      fc.property(attentionProblem(), (problem) => {
        const want = solve(runtime, problem);
        const tensors = operands(problem.shape, problem.seed).map(swapAxes) as [
          TestTensor,
          TestTensor,
          TestTensor,
        ];
        const got = runtime.scaledDotProductAttention(...tensors, {
          ...problem.options,
          layout: "blhd",
          returnLse: true,
        });
        expectSame(got.out, swapAxes(want.out), `out of ${label(problem)}`);
        expectSame(got.lse, want.lse, `lse of ${label(problem)}`);
      }),
      runs(60),
    );
  });

  it("with isCausal is that with the mask tril", () => {
    fc.assert(
      fc.property(attentionProblem(), (problem) => {
        const { lq, lk } = problem.shape;
        const tril = Uint8Array.from({ length: lq * lk }, (_, n) => (n % lk <= Math.floor(n / lk) ? 1 : 0));
        const { scale, kvLengths } = problem.options;
        const causal = { ...problem, options: { scale, kvLengths, isCausal: true } };
        const masked = {
          ...problem,
          options: { scale, kvLengths, attnMask: { data: tril, shape: [lq, lk] } },
        };
        const { tolerances } = solved(causal);
        const [want, got] = [solve(runtime, causal), solve(runtime, masked)];
        expectClose(got.out, want.out, tolerances[0] as number, `out of ${label(causal)}`);
        expectClose(got.lse, want.lse, tolerances[1] as number, `lse of ${label(causal)}`);
      }),
      runs(40),
    );
  });

  it("with a bad number in one place changes what sees it, to NaN where it is NaN, and nothing else by a bit", () => {
    const share = fc.double({ min: 0, max: 1, maxExcluded: true, noNaN: true });
    fc.assert(
      fc.property(
        attentionProblem(),
        fc.constantFrom("q", "k", "v"),
        share,
        badNumber,
        (problem, name, at, bad) => {
          const clean = solve(runtime, problem);
          const [q, k, v] = operands(problem.shape, problem.seed);
          const poisoned = { q, k, v }[name];
          const element = Math.floor(at * poisoned.data.length);
          poisoned.data[element] = bad;
          const got = runtime.scaledDotProductAttention(q, k, v, { ...problem.options, returnLse: true });
          const touched = touchedBy(problem, name, element);
          expectTouched(got.out, clean.out, touched.out, bad, `out of ${label(problem)}`);
          expectTouched(got.lse, clean.lse, touched.lse, bad, `lse of ${label(problem)}`);
        },
      ),
      runs(150),
    );
  });

  it("with all that no row sees poisoned is the same, bit for bit", () => {
    fc.assert(
      fc.property(attentionProblem(), badNumber, (problem, bad) => {
        const want = solve(runtime, problem);
        const [q, k, v] = operands(problem.shape, problem.seed);
        const { d, dv } = problem.shape;
        seenByAny(problem).forEach((isSeen, row) => {
          if (isSeen) return;
          k.data.fill(bad, row * d, (row + 1) * d);
          v.data.fill(bad, row * dv, (row + 1) * dv);
        });
        const got = runtime.scaledDotProductAttention(q, k, v, { ...problem.options, returnLse: true });
        expectSame(got.out, want.out, `out of ${label(problem)}`);
        expectSame(got.lse, want.lse, `lse of ${label(problem)}`);
      }),
      runs(80),
    );
  });

  it("with a constant added to all scores of a row is the same, and lse shifted by it", () => {
    fc.assert(
      fc.property(attentionProblem(), fc.constantFrom(-64, -3, 0.5, 100), (problem, constant) => {
        const { lq } = problem.shape;
        const { attnMask: _, ...options } = problem.options;
        const shift = {
          data: Float32Array.from({ length: lq }, (_, i) => constant * ((i % 3) - 1)),
          shape: [lq, 1],
        };
        const plain = { ...problem, options };
        const shifted = { ...problem, options: { ...options, attnMask: shift } };
        const { tolerances } = solved(shifted);
        const [want, got] = [solve(runtime, plain), solve(runtime, shifted)];
        expectClose(got.out, want.out, tolerances[0] as number, `out of ${label(shifted)}`);
        const lse = want.lse.data.map((x, row) => x + (shift.data[row % lq] as number));
        expectClose(
          got.lse,
          { data: lse, shape: want.lse.shape },
          tolerances[1] as number,
          `lse of ${label(shifted)}`,
        );
      }),
      runs(40),
    );
  });

  it("does not depend on what memory held before", () => {
    fc.assert(
      fc.property(attentionProblem(), fc.constantFrom(NaN, Infinity, -1), (problem, rubbish) => {
        const want = solve(runtime, problem);
        const got = solve(littered(variant, rubbish), problem);
        expectSame(got.out, want.out, `out of ${label(problem)}`);
        expectSame(got.lse, want.lse, `lse of ${label(problem)}`);
      }),
      runs(60),
    );
  });

  it("is a mean of the values: within their range in every column", () => {
    fc.assert(
      fc.property(attentionProblem(), (problem) => {
        const { heads, kvHeads, lk, dv } = problem.shape;
        const v = operands(problem.shape, problem.seed)[2].data;
        const { out, lse } = solve(runtime, problem);
        out.data.forEach((x, n) => {
          const row = Math.floor(n / dv);
          if (lse.data[row] === -Infinity) return;
          const bh = Math.floor(row / problem.shape.lq);
          const hKv = Math.floor(bh / heads) * kvHeads + Math.floor(((bh % heads) * kvHeads) / heads);
          let [low, high] = [Infinity, -Infinity];
          for (let j = 0; j < lk; j++) {
            const value = v[(hKv * lk + j) * dv + (n % dv)] as number;
            low = Math.min(low, value);
            high = Math.max(high, value);
          }
          const slack = 1e-5 * Math.max(-low, high);
          expect(x, `element ${n} of ${label(problem)}`).toBeGreaterThanOrEqual(low - slack);
          expect(x, `element ${n} of ${label(problem)}`).toBeLessThanOrEqual(high + slack);
        });
      }),
      runs(20),
    );
  });
});

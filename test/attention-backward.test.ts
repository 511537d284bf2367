import fc from "fast-check";
import { describe, expect, it } from "vitest";
import type { AttentionOptions } from "../src/index.ts";
import { type AttentionProblem, fullProblem, operands, runs } from "./arbitraries.ts";
import { seenByAny, swapAxes } from "./attention-rows.ts";
import { expectGradients, gradientsOf, upstream } from "./gradients.ts";
import { attentionBackward, objective } from "./reference/attention-backward.ts";
import type { RefTensor } from "./reference/rounding.ts";
import {
  blockSizes,
  booleanMask,
  describeVariants,
  expectClose,
  expectSame,
  forReference,
  freshRuntime,
  littered,
  qkv,
  randomTensor,
  type TestTensor,
} from "./support.ts";

const STEP = 1e-5;

/** Slope of the objective along one element, by central differences in float64, and what that may be off by. */
function slope(
  tensors: Record<string, RefTensor>,
  name: string,
  element: number,
  options: Parameters<typeof objective>[1],
): { want: number; noise: number } {
  const at = (x: number): number => {
    const data = Float64Array.from((tensors[name] as RefTensor).data);
    data[element] = (data[element] as number) + x;
    const moved = { ...tensors, [name]: { data, shape: (tensors[name] as RefTensor).shape } };
    const { attnMask, sinks, ...operands } = moved as typeof moved & {
      attnMask?: RefTensor;
      sinks?: RefTensor;
    };
    const all = { ...options, ...(attnMask ? { attnMask } : {}), ...(sinks ? { sinks } : {}) };
    return objective(operands as unknown as Parameters<typeof objective>[0], all);
  };
  const [above, below] = [at(STEP), at(-STEP)];
  // Roundings of the objective, whose terms are far larger than it where the scores are.
  return { want: (above - below) / (2 * STEP), noise: (1e-14 * Math.max(100, Math.abs(above), 1e4)) / STEP };
}

/** Problems small enough to difference, and elements of each operand to do it at. */
const small = fullProblem().filter(
  ({ shape: { batch, heads, lq, lk, d, dv } }) => batch * heads * lq * lk * (d + dv) < 12_000,
);
const places = fc.array(fc.nat(), { minLength: 8, maxLength: 8 });

function differenced({ shape, options, seed }: AttentionProblem) {
  const [query, key, value] = operands(shape, seed);
  const dOut = randomTensor([shape.batch, shape.heads, shape.lq, shape.dv], seed + 7);
  const dLse = randomTensor([shape.batch, shape.heads, shape.lq], seed + 8);
  const { attnMask, sinks } = options;
  const additive = attnMask?.data instanceof Float32Array ? { attnMask: attnMask as TestTensor } : {};
  const tensors = {
    dOut,
    dLse,
    query,
    key,
    value,
    ...additive,
    ...(sinks ? { sinks: sinks as TestTensor } : {}),
  };
  return { tensors, options: forReference(options) };
}

const isLarge = ({ options }: AttentionProblem): boolean =>
  options.attnMask?.data instanceof Float32Array && options.attnMask.data.includes(-1e4);

const gradientNames: Record<string, string> = {
  query: "dQuery",
  key: "dKey",
  value: "dValue",
  attnMask: "dAttnMask",
  sinks: "dSinks",
};

describe("the reference of the backward", () => {
  it("equals finite differences of the reference of the forward, for every combination of options", () => {
    fc.assert(
      fc.property(small, places, (problem, at) => {
        const { tensors, options } = differenced(problem);
        const gradients = attentionBackward(tensors, options) as unknown as Record<string, RefTensor>;
        for (const [name, gradient] of Object.entries(gradientNames)) {
          const tensor = (tensors as Record<string, RefTensor>)[name];
          if (!tensor) continue;
          const want = gradients[gradient] as RefTensor;
          const largest = Math.max(1, ...Array.from(want.data, Math.abs));
          for (const n of at.slice(0, 3)) {
            const element = n % tensor.data.length;
            if (tensor.data[element] === -Infinity) continue;
            const { want: slopeAt, noise } = slope(tensors, name, element, options);
            const error = Math.abs(slopeAt - (want.data[element] as number));
            expect(error, `${gradient}[${element}]`).toBeLessThan(1e-5 * largest + noise);
          }
        }
      }),
      runs(150),
    );
  });
});

describeVariants("scaledDotProductAttentionBackward", (runtime, variant) => {
  it("equals the reference, for any shape and options", () => {
    fc.assert(
      fc.property(fullProblem(), fc.boolean(), (problem, hasDLse) => {
        const { shape, options, seed } = problem;
        const tensors = operands(shape, seed);
        const { dOut, dLse } = upstream(runtime, tensors, options, seed);
        expectGradients(runtime, tensors, options, hasDLse ? { dOut, dLse: dLse as TestTensor } : { dOut });
      }),
      runs(variant === "debug" ? 60 : 120),
    );
  });

  it("equals finite differences of the float64 reference", () => {
    fc.assert(
      fc.property(small, places, (problem, at) => {
        const { tensors, options } = differenced(problem);
        const { dOut, dLse, query, key, value } = tensors;
        const got = gradientsOf(runtime, [query, key, value], problem.options, { dOut, dLse });
        for (const [name, gradient] of Object.entries(gradientNames)) {
          const tensor = (tensors as Record<string, RefTensor>)[name];
          if (!tensor) continue;
          const { data } = got[gradient] as TestTensor;
          const largest = Math.max(1, ...data.map(Math.abs));
          for (const n of at.slice(0, 3)) {
            const element = n % tensor.data.length;
            if (tensor.data[element] === -Infinity) continue;
            const { want, noise } = slope(tensors, name, element, options);
            // The kernel's own error is held to the reference above; here a wrong formula has to show. A mask of -1e4
            // leaves scores, and so weights, three digits.
            const own = isLarge(problem) ? 1e-2 : 1e-4;
            const error = Math.abs((data[element] as number) - want);
            expect(error, `${gradient}[${element}]`).toBeLessThan(own * largest + noise);
          }
        }
      }),
      runs(60),
    );
  });

  it("goes on over the edges of blocks and panels", () => {
    const { BLOCK_Q, BACKWARD_K } = blockSizes(variant);
    const cases: [number, number, AttentionOptions][] = [
      [BLOCK_Q + 1, BACKWARD_K + 1, {}],
      [2 * BLOCK_Q, 2 * BACKWARD_K, { isCausal: true }],
      [BLOCK_Q - 1, 2 * BACKWARD_K + 7, { windowSize: [70, 0], causalAlignment: "bottomRight" }],
      [130, 130, { windowSize: [3, 5] }],
    ];
    for (const [lq, lk, options] of cases) {
      const tensors = qkv(1, 2, 1, lq, lk, 12, 20);
      expectGradients(runtime, tensors, options, upstream(runtime, tensors, options, 3));
    }
  });

  it("is exact enough where the scores are large", () => {
    for (const [factor, shift] of [
      [20, 0],
      [1, 1e4],
      [1, -1e4],
      [100, 300],
    ] as const) {
      const tensors = qkv(1, 2, 1, 20, 150, 16, 16);
      tensors[0].data.set(tensors[0].data.map((x) => x * factor));
      const attnMask = { data: new Float32Array(20).fill(shift), shape: [20, 1] };
      for (const sinks of [undefined, { data: Float32Array.of(shift, shift + 1), shape: [2] }]) {
        const options = { attnMask, sinks };
        expectGradients(runtime, tensors, options, upstream(runtime, tensors, options, 4));
      }
    }
  });

  it("gives masked keys and dead rows exactly 0, and takes nothing from them", () => {
    fc.assert(
      fc.property(fullProblem(), fc.constantFrom(NaN, Infinity, -Infinity), (problem, bad) => {
        const { options: all, shape, seed } = problem;
        const { sinks: _, ...options } = all; // a sink makes a row without keys a constant, but not a dead one
        const [q, k, v] = operands(shape, seed);
        const { dOut, dLse } = upstream(runtime, [q, k, v], options, seed) as {
          dOut: TestTensor;
          dLse: TestTensor;
        };
        const { lse } = runtime.scaledDotProductAttention(q, k, v, { ...options, returnLse: true });
        const clean = gradientsOf(runtime, [q, k, v], options, { dOut, dLse });
        const { d, dv } = shape;
        const unseen = seenByAny({ ...problem, options }).flatMap((isSeen, row) => (isSeen ? [] : [row]));
        const dead = [...lse.data.keys()].filter((row) => lse.data[row] === -Infinity);
        const fill = (t: TestTensor, row: number, width: number) =>
          t.data.fill(bad, row * width, (row + 1) * width);
        for (const row of unseen) {
          fill(k, row, d);
          fill(v, row, dv);
        }
        for (const row of dead) {
          fill(q, row, d);
          fill(dOut, row, dv);
          dLse.data[row] = bad;
        }
        const got = gradientsOf(runtime, [q, k, v], options, { dOut, dLse });
        for (const name of Object.keys(clean)) {
          expectSame(got[name] as TestTensor, clean[name] as TestTensor, `${name} ${JSON.stringify(shape)}`);
        }
        const zero = (t: TestTensor | undefined, row: number, width: number) =>
          expect(t?.data.subarray(row * width, (row + 1) * width).every((x) => x === 0)).toBe(true);
        for (const row of unseen) {
          zero(got.dKey, row, d);
          zero(got.dValue, row, dv);
        }
        for (const row of dead) zero(got.dQuery, row, d);
      }),
      runs(120),
    );
  });

  it("keeps a bad value behind a partial mask from the rows that do not see it", () => {
    const [lq, lk] = [70, 150];
    const tensors = qkv(1, 1, 1, lq, lk, 12, 9);
    const attnMask = booleanMask([lq, lk], 5);
    const hidden = 17; // key 17 is seen by odd rows alone, so even rows must not change
    for (let i = 0; i < lq; i++) attnMask.data[i * lk + hidden] = i % 2;
    const up = upstream(runtime, tensors, { attnMask }, 6);
    const clean = gradientsOf(runtime, tensors, { attnMask }, up);
    for (const [operand, width] of [
      [1, 12],
      [2, 9],
    ] as const) {
      for (const bad of [NaN, Infinity]) {
        const poisoned = tensors.map(({ data, shape }) => ({ data: data.slice(), shape })) as typeof tensors;
        (poisoned[operand] as TestTensor).data.fill(bad, hidden * width, (hidden + 1) * width);
        const got = gradientsOf(runtime, poisoned, { attnMask }, up);
        for (let i = 0; i < lq; i++) {
          const row = (t: TestTensor | undefined) => t?.data.subarray(i * 12, (i + 1) * 12);
          if (i % 2 === 0) expect(row(got.dQuery), `dQuery of row ${i}`).toEqual(row(clean.dQuery));
          else expect(row(got.dQuery)?.some(Number.isNaN), `dQuery of row ${i}`).toBe(true);
        }
      }
    }
  });

  it("sums over what is shared: batch entries, heads of a group, axes of a mask", () => {
    const [q] = qkv(3, 4, 2, 9, 30, 8, 8);
    const [, k, v] = qkv(1, 4, 2, 9, 30, 8, 8);
    for (const shape of [[30], [9, 1], [1], [4, 1, 30], [3, 1, 9, 30], [1, 4, 1, 1]]) {
      const options = { attnMask: randomTensor(shape, 3) };
      expectGradients(runtime, [q, k, v], options, upstream(runtime, [q, k, v], options, 3));
    }
    const [one, keys, values] = [
      qkv(1, 4, 2, 9, 30, 8, 8)[0],
      ...qkv(3, 4, 2, 9, 30, 8, 8).slice(1),
    ] as const;
    const tensors = [one, keys, values] as [TestTensor, TestTensor, TestTensor];
    expectGradients(runtime, tensors, {}, upstream(runtime, tensors, {}, 3));
  });

  it("of parts of the keys, with out and lse of the whole, adds up to the whole", () => {
    const [q, k, v] = qkv(1, 2, 2, 20, 60, 8, 8);
    const { dOut } = upstream(runtime, [q, k, v], {}, 2);
    const { out, lse } = runtime.scaledDotProductAttention(q, k, v, { returnLse: true });
    const whole = runtime.scaledDotProductAttentionBackward({
      dOut,
      query: q,
      key: k,
      value: v,
      out,
      lse,
    });
    const dQuery = new Float32Array(q.data.length);
    for (const [from, to] of [
      [0, 7],
      [7, 60],
    ] as const) {
      const part = (t: TestTensor): TestTensor => {
        const data = [0, 1].flatMap((h) => [...t.data.subarray((h * 60 + from) * 8, (h * 60 + to) * 8)]);
        return { data: Float32Array.from(data), shape: [1, 2, to - from, 8] };
      };
      const [key, value] = [part(k), part(v)];
      const got = runtime.scaledDotProductAttentionBackward({
        dOut,
        query: q,
        key,
        value,
        out,
        lse,
      });
      expectClose(got.dKey, part(whole.dKey), 1e-5);
      expectClose(got.dValue, part(whole.dValue), 1e-5);
      got.dQuery.data.forEach((x, i) => {
        dQuery[i] = (dQuery[i] as number) + x;
      });
    }
    expectClose({ data: dQuery, shape: q.shape }, whole.dQuery, 1e-5);
  });

  it("in layout blhd is the transpose of bhld, bit for bit, and memory's contents do not matter", () => {
    fc.assert(
      fc.property(fullProblem(), ({ shape, options, seed }) => {
        const tensors = operands(shape, seed);
        const { dOut, dLse } = upstream(runtime, tensors, options, seed) as {
          dOut: TestTensor;
          dLse: TestTensor;
        };
        const want = gradientsOf(runtime, tensors, options, { dOut, dLse });
        const swapped = tensors.map(swapAxes) as typeof tensors;
        const up = { dOut: swapAxes(dOut), dLse };
        const got = gradientsOf(littered(variant, NaN), swapped, { ...options, layout: "blhd" }, up);
        for (const name of Object.keys(want)) {
          const gradient = got[name] as TestTensor;
          const isOperand = ["dQuery", "dKey", "dValue"].includes(name);
          expectSame(isOperand ? swapAxes(gradient) : gradient, want[name] as TestTensor, name);
        }
      }),
      runs(40),
    );
  });

  it("takes empty sizes", () => {
    for (const [b, h, lq, lk, dv] of [
      [0, 2, 3, 4, 4],
      [1, 0, 3, 4, 4],
      [1, 2, 0, 4, 4],
      [1, 2, 3, 0, 4],
      [1, 2, 3, 4, 0],
    ] as const) {
      const tensors = qkv(b, h, h, lq, lk, 4, dv);
      const got = gradientsOf(runtime, tensors, {}, upstream(runtime, tensors, {}, 1));
      expect(got.dQuery?.shape).toEqual([b, h, lq, 4]);
      for (const { data } of Object.values(got))
        expect(data.every((x) => (dv === 0 ? Number.isFinite(x) : x === 0))).toBe(true);
    }
  });

  it("of resident tensors is resident, and memory stays flat", () => {
    const own = freshRuntime(variant);
    const [query, key, value] = qkv(1, 2, 2, 40, 40, 16, 16).map((t) =>
      own.tensor(t.shape, t.data),
    ) as never as [
      ReturnType<typeof own.tensor>,
      ReturnType<typeof own.tensor>,
      ReturnType<typeof own.tensor>,
    ];
    const dOut = own.tensor([1, 2, 40, 16], randomTensor([1, 2, 40, 16], 2).data);
    const { out, lse } = own.scaledDotProductAttention(query, key, value, { returnLse: true });
    let bytes = 0;
    for (let step = 0; step < 200; step++) {
      const gradients = own.scaledDotProductAttentionBackward({ dOut, query, key, value, out, lse });
      expect(gradients.dQuery.disposed).toBe(false);
      for (const tensor of [gradients.dQuery, gradients.dKey, gradients.dValue]) tensor.dispose();
      if (step === 0) bytes = own.info().memoryBytes;
    }
    expect(own.info().memoryBytes).toBe(bytes);
  });
});

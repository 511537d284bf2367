import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { type AttentionProblem, fullProblem, operands, runs } from "./arbitraries.ts";
import { gradientsOf } from "./gradients.ts";
import { attentionBackward, objective } from "./reference/attention-backward.ts";
import type { RefTensor } from "./reference/rounding.ts";
import { describeVariants, forReference, randomTensor, type TestTensor } from "./support.ts";

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
  return { want: (above - below) / (2 * STEP), noise: (1e-14 * Math.max(1e4, Math.abs(above))) / STEP };
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

describeVariants("scaledDotProductAttentionBackward", (runtime) => {
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
});

import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { attention } from "../../src/onnx/index.ts";
import { runs } from "../arbitraries.ts";
import { describeVariants, expectClose } from "../support.ts";
import { label, type OnnxProblem, onnxProblem, outputNames, solve, stored } from "./problems.ts";

describe("the problems", () => {
  it("are of every kind", () => {
    const problems = fc.sample(onnxProblem, { numRuns: 200, seed: runs(0).seed });
    const kinds: Record<string, (problem: OnnxProblem) => boolean> = {
      packed: ({ inputs }) => inputs.Q.shape.length === 3,
      past: ({ inputs }) => (inputs.past_key?.shape[2] ?? 0) > 0,
      "empty past": ({ inputs }) => inputs.past_key?.shape[2] === 0,
      "packed past": ({ inputs }) => inputs.Q.shape.length === 3 && inputs.past_key !== undefined,
      nonpad: ({ nonpad }) => nonpad !== undefined,
      "negative offset": ({ nonpad, inputs }) =>
        inputs.Q.shape.length === 4 && Math.min(...(nonpad ?? [99])) < (inputs.Q.shape[2] as number),
      window: ({ attributes: { left_window_size: l = -1, right_window_size: r = -1 } }) => l >= 0 || r >= 0,
      "short mask": ({ mask, inputs, attributes }) =>
        attributes.opset !== 23 &&
        inputs.past_key === undefined &&
        (mask?.shape.at(-1) ?? Infinity) < (inputs.K.shape.at(inputs.K.shape.length - 2) as number),
      "boolean mask": ({ mask }) => mask?.kind === "boolean",
      "float mask": ({ mask }) => mask?.kind === "float",
      "integer mask": ({ mask }) => mask?.kind === "integer",
      softcap: ({ attributes }) => (attributes.softcap ?? 0) > 0,
      float16: ({ isHalf }) => isHalf,
    };
    for (const mode of [0, 1, 2, 3])
      kinds[`mode ${mode}`] = ({ attributes }) => attributes.qk_matmul_output_mode === mode;
    for (const [kind, is] of Object.entries(kinds))
      expect(problems.filter(is).length, kind).toBeGreaterThanOrEqual(6);
  });
});

describeVariants("ONNX attention", (runtime) => {
  it("gives all outputs as the reference does, whatever the attributes and inputs", () => {
    fc.assert(
      fc.property(onnxProblem, (problem) => {
        const { want, tolerances } = solve(problem);
        const isOutside = problem.nonpad !== undefined;
        const outputs = outputNames.filter((name) => !(isOutside && name.startsWith("present")));
        const got = attention(problem.attributes, stored(problem), { runtime, outputs });
        expect(Object.keys(got).sort()).toEqual([...outputs].sort());
        outputNames.forEach((name, i) => {
          const output = got[name];
          if (output) expectClose(output, want[i]!, tolerances[i] as number, `${name} of ${label(problem)}`);
        });
        if (problem.attributes.qk_matmul_output_mode !== 3) return;
        const weights = got.qk_matmul_output!.data;
        Array.from(want[3]!.data).forEach((w, i) => {
          if (w === 0) expect(weights[i], `weight ${i} of a hidden key in ${label(problem)}`).toBe(0);
        });
      }),
      runs(150),
    );
  });
});

import { afterAll, describe, expect, it } from "vitest";
import type { RefTensor, Rounding } from "../reference/rounding.ts";
import {
  calibrate,
  describeVariants,
  expectClose,
  maxError,
  type TestTensor,
  unavailable,
} from "../support.ts";
import { type Case, referenceEngine, runtimeEngine } from "./case.ts";
import { type CaseTensor, goldenFiles, hasOnnx, onnxDirectory, onnxFiles } from "./data.ts";
import { goldenCase } from "./golden.ts";
import { onnxCase } from "./onnx.ts";

/** What the data asks for and the library does not have: a case that needs one of these is left, and named in the summary. */
const missing = ["operation CausalConvWithState", "operation FlexAttention", "operation LinearAttention"];

const cases = [...goldenFiles().map(goldenCase), ...onnxFiles().map(onnxCase)];
const isLeft = (c: Case): boolean => c.features.some((feature) => missing.includes(feature));
const toRun = cases.filter((c) => !isLeft(c));
const ranBy = new Map<string, number>();

describeVariants("conformance", (runtime, variant) => {
  const engine = runtimeEngine(runtime);
  it.each(toRun.map((c) => [c.name, c] as const))("%s", (_, c) => {
    checkCase(c, c.compute(engine, c.operands));
    ranBy.set(variant, (ranBy.get(variant) ?? 0) + 1);
  });
});

/**
 * Twice the error of plain float32, for gradients three times, and what the data themselves are off by: ONNX rounds its
 * outputs to float32 or float16, and some of them it computed in float32.
 */
function checkCase(c: Case, got: Record<string, RefTensor>): void {
  const names = Object.keys(c.expected);
  expect(names.length, "outputs to compare").toBeGreaterThan(0);
  const select = (outputs: Record<string, RefTensor>): RefTensor[] =>
    names.map((name) => {
      const output = outputs[name];
      if (!output) throw new Error(`${c.name}: ${name} is not computed, and no feature is named for it`);
      return output;
    });
  const compute = (operands: readonly TestTensor[], round: Rounding, draw: number): RefTensor[] =>
    select(c.compute(referenceEngine(round, draw), operands));
  const factor = names.map((name) => (/^d[a-z]+$/.test(name) ? 3 : 2));
  const { want, tolerances } = calibrate(c.name, c.operands, compute, { draws: 32, fixed: c.exact, factor });
  select(got).forEach((output, i) => {
    const expected = c.expected[names[i] as string] as CaseTensor;
    const dataError = maxError(expected.data, (want[i] as RefTensor).data);
    expectClose(output, expected, (tolerances[i] as number) + dataError, `${c.name}: ${names[i]}`);
  });
}

describe("conformance data", () => {
  it("holds the cases that are meant", () => {
    expect(cases.filter((c) => c.name.startsWith("golden/")).length).toBeGreaterThanOrEqual(69);
    if (hasOnnx) expect(cases.filter((c) => c.name.startsWith("onnx/")).length).toBeGreaterThanOrEqual(138);
  });

  if (hasOnnx) {
    it("holds all of ONNX Attention, with all of its outputs", () => {
      const attention = toRun.filter((c) => c.op === "Attention");
      expect(attention.length).toBeGreaterThanOrEqual(57);
      const scores = attention.filter((c) => "qk_matmul_output" in c.expected);
      expect(scores.length).toBeGreaterThanOrEqual(12);
    });
  }

  it("holds a gradient of every golden attention case", () => {
    const golden = toRun.filter((c) => c.op === "attention");
    expect(golden.length).toBeGreaterThanOrEqual(53);
    for (const c of golden)
      expect(Object.keys(c.expected)).toEqual(expect.arrayContaining(["dq", "dk", "dv"]));
  });

  it("leaves nothing but what is said to be missing", () => {
    for (const c of cases) {
      if (isLeft(c)) expect(missing, c.name).toEqual(expect.arrayContaining([...c.features]));
      else expect(Object.keys(c.expected), c.name).not.toEqual([]);
    }
  });

  if (!hasOnnx) unavailable(`ONNX cases: no ${onnxDirectory}; CONFORMANCE_DIR names where they are`);
});

afterAll(() => {
  const counts = [...ranBy].map(([variant, n]) => `${n} on ${variant}`).join(", ");
  const lines = [`conformance: of ${cases.length} case files ran ${counts}`];
  const leftFiles = tally(
    cases.filter(isLeft).map((c) => [c.features.find((f) => missing.includes(f)) as string, c.name]),
  );
  for (const [feature, names] of leftFiles)
    lines.push(`  left for want of ${feature}: ${names.length} files: ${names.join(" ")}`);
  if (!hasOnnx) lines.push(`  not run: ONNX cases: no ${onnxDirectory}`);
  console.log(lines.join("\n"));
});

function tally(pairs: (readonly [string, string])[]): Map<string, string[]> {
  const byFeature = new Map<string, string[]>();
  for (const [feature, name] of pairs) byFeature.set(feature, [...(byFeature.get(feature) ?? []), name]);
  return byFeature;
}

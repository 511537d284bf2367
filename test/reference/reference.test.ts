import { describe, expect, it } from "vitest";
import { type Case, referenceEngine } from "../conformance/case.ts";
import { goldenFiles, hasOnnx, onnxDirectory, onnxFiles } from "../conformance/data.ts";
import { goldenCase } from "../conformance/golden.ts";
import { onnxCase } from "../conformance/onnx.ts";
import { unavailable } from "../unavailable.ts";
import { attention } from "./attention.ts";
import { expectClose, ulp16, ulp32 } from "./compare.ts";
import { float32, float64 } from "./rounding.ts";

/**
 * The references are the truth of all other tests, so they are held to truth from outside: torch in
 * float64 (golden) and ONNX, for every case of the operations they have, those that the library leaves included.
 */
const engine = referenceEngine(float64);
const outside = (c: Case): boolean => c.features.some((feature) => feature.startsWith("operation "));
const golden = goldenFiles().map(goldenCase);
const onnx = onnxFiles()
  .map(onnxCase)
  .filter((c) => !outside(c));

const named = (cases: Case[]): (readonly [string, Case])[] => cases.map((c) => [c.name, c] as const);

describe("reference in float64", () => {
  it.each(named(golden))("%s", (_, c) => {
    const got = c.compute(engine, c.operands);
    for (const [name, want] of Object.entries(c.expected)) {
      expectClose(computed(got, name), want, 1e-13 * largest(want.data), `${c.name}: ${name}`);
    }
  });

  if (!hasOnnx) unavailable(`ONNX cases: no ${onnxDirectory}; CONFORMANCE_DIR names where they are`);
  it.each(named(onnx))("%s", (_, c) => {
    const got = c.compute(engine, c.operands);
    for (const [name, want] of Object.entries(c.expected)) {
      const result = computed(got, name);
      // The Attention data is the exact result rounded once. The others were computed in float32.
      if (c.op === "Attention") {
        const ulp = want.dtype === "float16" ? ulp16 : ulp32;
        want.data.forEach((w, i) => {
          const x = result.data[i] as number;
          const error = x === w ? 0 : Math.abs(x - w); // equal infinities have no difference
          expect(error, `${c.name}: ${name}[${i}] = ${w}`).toBeLessThanOrEqual(0.5001 * ulp(w));
        });
      } else expectClose(result, want, 1e-6 * largest(want.data), `${c.name}: ${name}`);
    }
  });
});

describe("plain float32 twin", () => {
  const plain = referenceEngine(float32);
  it.each(named(golden))("gives float32 numbers: %s", (_, c) => {
    for (const { data } of Object.values(c.compute(plain, c.operands))) {
      for (let i = 0; i < data.length; i++) expect(data[i]).toBe(Math.fround(data[i] as number));
    }
  });
});

describe("options without outside data", () => {
  const x = (data: number[], shape: number[]) => ({ data: Float64Array.from(data), shape });

  it("a sink is one more key of each head, with a score of its own and the value 0", () => {
    const q = x([1, -1], [1, 2, 1, 1]);
    const k = x([1, 2, 3], [1, 1, 3, 1]);
    const v = x([4, 5, 6], [1, 1, 3, 1]);
    const sinks = x([0.5, -2], [2]);
    const { out, lse } = attention(q, k, v, { scale: 1, sinks });
    sinks.data.forEach((sink, h) => {
      const s = [1, 2, 3].map((kj) => kj * (q.data[h] as number));
      const sum = s.reduce((total, sj) => total + Math.exp(sj), Math.exp(sink));
      const mean = s.reduce((total, sj, j) => total + (Math.exp(sj) / sum) * (4 + j), 0);
      expect(out.data[h]).toBeCloseTo(mean, 12);
      expect(lse.data[h]).toBeCloseTo(Math.log(sum), 12);
    });
  });

  it("scaling the query is scaling the score", () => {
    const q = x([1, 2, 3, 4], [2, 2]);
    const k = x([1, 0, 0, 1, 1, 1], [3, 2]);
    const v = x([1, 2, 3], [3, 1]);
    const want = attention(q, k, v, { scale: 0.3 });
    const got = attention(q, k, v, { scale: 0.3, scaleQuery: true });
    expectClose(got.out, want.out, 1e-14);
    expectClose(got.lse, want.lse, 1e-14);
  });

  it("bottomRight stands at the end of each batch's own keys", () => {
    const [q, k] = [x([0, 0], [2, 1, 1, 1]), x([0, 0, 0, 0, 0, 0], [2, 1, 3, 1])];
    const v = x([1, 2, 4, 1, 2, 4], [2, 1, 3, 1]);
    const options = {
      isCausal: true,
      causalAlignment: "bottomRight",
      kvLengths: Int32Array.of(3, 1),
    } as const;
    expectClose(attention(q, k, v, options).out, x([7 / 3, 1], [2, 1, 1, 1]), 1e-6);
  });
});

function computed(got: ReturnType<Case["compute"]>, name: string) {
  const tensor = got[name];
  if (!tensor) throw new Error(`output ${name} is not computed`);
  return tensor;
}

/** The largest finite magnitude, at least 1. */
const largest = (data: ArrayLike<number>): number =>
  Array.from(data, Math.abs).reduce((a, b) => (Number.isFinite(b) ? Math.max(a, b) : a), 1);

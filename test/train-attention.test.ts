import { execFile } from "node:child_process";
import { fileURLToPath } from "node:url";
import { promisify } from "node:util";
import { describe, expect, it } from "vitest";
import { createWeights, differentiate, type WeightName } from "../examples/train-attention/model.mjs";
import { plot } from "../examples/train-attention/plot.mjs";
import { type Batch, drawBatch, normal, uniform } from "../examples/train-attention/task.mjs";
import { finalLoss, train } from "../examples/train-attention/train.mjs";
import { attention } from "./reference/attention.ts";
import { matmul } from "./reference/matmul.ts";
import type { RefTensor } from "./reference/rounding.ts";
import { logSoftmax } from "./reference/softmax.ts";

const sizes = { length: 5, vocabulary: 4, width: 6, headDim: 8, batch: 3 };
const names: WeightName[] = ["tokens", "positions", "query", "key", "value", "out"];

/** The loss in float64, by the references. */
function referenceLoss(
  weights: Record<WeightName, RefTensor>,
  { tokens, targets }: Batch,
  scale: number,
): number {
  const { length, width } = sizes;
  const x = new Float64Array(tokens.length * width);
  tokens.forEach((token, n) => {
    for (let c = 0; c < width; c++) {
      const position = weights.positions.data[(n % length) * width + c] as number;
      x[n * width + c] = (weights.tokens.data[token * width + c] as number) + position;
    }
  });
  const input = { data: x, shape: [tokens.length / length, length, width] };
  const [q, k, v] = [weights.query, weights.key, weights.value].map((w) => matmul(input, w));
  const heads = (t: RefTensor | undefined): RefTensor => {
    const { data, shape } = t as RefTensor;
    return { data, shape: [shape[0] as number, 1, ...shape.slice(1)] };
  };
  const { out } = attention(heads(q), heads(k), heads(v), { scale });
  const y = logSoftmax(matmul(out, weights.out), -1);
  return (
    -targets.reduce((sum, t, n) => sum + (y.data[n * sizes.vocabulary + t] as number), 0) / targets.length
  );
}

describe("the training example", () => {
  it.each([1 / Math.sqrt(8), 1])("has the gradients of its loss, with scale %f", (scale) => {
    const next = uniform(5);
    const weights = createWeights(normal(next), sizes);
    const batch = drawBatch(next, sizes);
    const { loss, gradients } = differentiate(weights, batch, scale);
    expect(loss).toBeCloseTo(referenceLoss(weights, batch, scale), 5);
    const step = 1e-5;
    for (const name of names) {
      const { data, shape } = weights[name];
      const want = data.map((_, element) => {
        const at = (x: number): number => {
          const moved = Float64Array.from(data, (w, i) => (i === element ? w + x : w));
          return referenceLoss({ ...weights, [name]: { data: moved, shape } }, batch, scale);
        };
        return (at(step) - at(-step)) / (2 * step);
      });
      expect(gradients[name].shape).toEqual(shape);
      const largest = Math.max(...want.map(Math.abs));
      const error = Math.max(...want.map((x, i) => Math.abs(x - (gradients[name].data[i] as number))));
      // Ten roundings of float32: a gradient that is wrong is off by its own size.
      expect(error / largest, name).toBeLessThan(1e-6);
    }
  });

  it("learns with 1/√headDim what it does not without, in as many steps", () => {
    const scaled = train(1 / Math.sqrt(256));
    const unscaled = train(1);
    expect(finalLoss(scaled)).toBeLessThan((scaled[0] as number) / 10);
    expect(finalLoss(unscaled)).toBeGreaterThan(20 * finalLoss(scaled));
  });

  it("draws the larger losses higher, smaller ones than the axis at its end", () => {
    const lines = plot(
      [
        { mark: "o", values: [4, 4, 4] },
        { mark: "*", values: [4, 1, 0] },
      ],
      0.01,
    ).split("\n");
    expect(lines[0]).toMatch(/^ +4\.0 │\*/);
    expect(lines[0]).toMatch(/o$/);
    expect(lines[15]).toMatch(/0\.010 │ .*\*$/);
    expect(lines.at(-1)).toMatch(/^ +1 +step 3$/);
  });

  it("has a command line that prints both, helps, and refuses what it does not know", async () => {
    const main = fileURLToPath(new URL("../examples/train-attention/main.mjs", import.meta.url));
    const run = (...args: string[]) => promisify(execFile)(process.execPath, [main, ...args]);
    const { stdout } = await run("--steps", "3", "--head-dim", "16");
    expect(stdout).toMatch(/scale 1\/√16: loss \d\.\d+ -> /);
    expect(stdout).toMatch(/scale 1: loss \d\.\d+ -> /);
    expect((await run("--help")).stdout).toContain("npm run train");
    await expect(run("--steps", "none")).rejects.toMatchObject({ code: 2, stderr: /--steps.*none/ });
    await expect(run("--epochs", "3")).rejects.toMatchObject({ code: 2, stderr: /epochs/ });
  });
});

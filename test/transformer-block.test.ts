import { expect, it } from "vitest";
import { createRuntimeSync, type ResidentTensor, type Runtime } from "../src/index.ts";
import { inForm, randomWeights, residentWeights, type Weights } from "./multi-head.ts";
import { gelu } from "./reference/activation.ts";
import { linear, multiHeadAttention, type RefLinear } from "./reference/multi-head-attention.ts";
import { layerNorm } from "./reference/norm.ts";
import type { RefTensor, Rounding } from "./reference/rounding.ts";
import {
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  randomTensor,
  type TestTensor,
} from "./support.ts";

const WIDTH = 32;
const HIDDEN = 4 * WIDTH;
const shape = {
  numHeads: 4,
  numKvHeads: 2,
  headDim: 8,
  widths: [WIDTH, WIDTH, WIDTH],
  outputs: WIDTH,
} as const;
const heads = { numHeads: 4, numKvHeads: 2, isCausal: true };

const scaled = (t: TestTensor): TestTensor => ({ ...t, data: t.data.map((x) => x / Math.sqrt(WIDTH)) });
const feedForward = {
  hidden: { weight: scaled(randomTensor([HIDDEN, WIDTH], 1)), bias: randomTensor([HIDDEN], 2) },
  projection: { weight: scaled(randomTensor([WIDTH, HIDDEN], 3)), bias: randomTensor([WIDTH], 4) },
};
const norms = [5, 7].map((seed) => ({
  weight: randomTensor([WIDTH], seed),
  bias: randomTensor([WIDTH], seed + 1),
}));
const weights = randomWeights(shape, 9);

/** x = x + attention(norm(x)); x = x + feedForward(norm(x)). */
function referenceBlock(x: RefTensor, round: Rounding): RefTensor {
  const add = (a: RefTensor, b: RefTensor): RefTensor => ({
    data: Array.from(a.data, (v, i) => round(v + (b.data[i] as number))),
    shape: a.shape,
  });
  const normalized = layerNorm(x, norms[0], round).out;
  const attended = multiHeadAttention(normalized, normalized, normalized, { ...heads, ...weights }, round);
  const middle = add(x, attended);
  const hidden = linear(layerNorm(middle, norms[1], round).out, feedForward.hidden, round);
  const active = gelu(hidden, "none", round);
  return add(middle, linear(active, feedForward.projection as RefLinear, round));
}

/** The same on resident tensors alone. */
function residentBlock(runtime: Runtime) {
  const put = ({ data, shape: axes }: TestTensor): ResidentTensor => runtime.tensor(axes, data);
  const putLinear = ({ weight, bias }: Weights["qProj"]) => ({ weight: put(weight), bias: put(bias) });
  const [first, second] = norms.map(putLinear) as [
    ReturnType<typeof putLinear>,
    ReturnType<typeof putLinear>,
  ];
  const [hidden, projection] = [putLinear(feedForward.hidden), putLinear(feedForward.projection)];
  const attention = residentWeights(runtime, inForm(weights, { fusedWeight: true, bias: "fused" }));
  return (x: ResidentTensor): ResidentTensor => {
    using normalized = runtime.layerNorm(x, first);
    using attended = runtime.multiHeadAttention(normalized, { ...heads, ...attention });
    const sum = runtime.add(x, attended);
    runtime.layerNorm(sum, { ...second, out: normalized });
    using h = runtime.matmul(normalized, hidden.weight, { transposeB: true, c: hidden.bias });
    runtime.gelu(h, { out: h });
    using projected = runtime.matmul(h, projection.weight, { transposeB: true, c: projection.bias });
    return runtime.add(sum, projected, { out: sum });
  };
}

describeVariants("a pre-norm transformer block", (runtime, variant) => {
  it("runs on resident tensors alone and equals the reference", () => {
    const x = randomTensor([2, 11, WIDTH], 20);
    const { want, tolerances } = calibrate("block", [x], ([t], round) => [
      referenceBlock(t as TestTensor, round),
    ]);
    using input = runtime.tensor(x.shape, x.data);
    using output = residentBlock(runtime)(input);
    expectClose(output, want[0] as RefTensor, tolerances[0] as number, "block");
    expectSame(input, x, "the input");
  });

  it("leaves memory as it was after the first of a thousand runs", () => {
    const on = createRuntimeSync({ variant: variant === "relaxed" ? "relaxed" : "simd" });
    const block = residentBlock(on);
    const x = randomTensor([1, 5, WIDTH], 21);
    using input = on.tensor(x.shape, x.data);
    const first = block(input);
    const data = first.data.slice();
    first.dispose();
    const { memoryBytes } = on.info();
    for (let i = 0; i < 1000; i++) {
      using output = block(input);
      if (i === 999) expect(output.data).toEqual(data);
    }
    expect(on.info().memoryBytes).toBe(memoryBytes);
  });
});

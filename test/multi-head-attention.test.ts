import fc from "fast-check";
import { expect, it } from "vitest";
import { createRuntimeSync, type Runtime } from "../src/index.ts";
import { fullProblem, runs } from "./arbitraries.ts";
import {
  type Form,
  inForm,
  type OtherOptions,
  randomWeights,
  residentWeights,
  solveMultiHead,
  transposed,
  type Weights,
} from "./multi-head.ts";
import {
  additiveMask,
  booleanMask,
  describeOptions,
  describeVariants,
  expectClose,
  expectSame,
  littered,
  randomTensor,
  type TestTensor,
  zeros,
} from "./support.ts";

const forms: Form[] = [true, false].flatMap((fusedWeight) =>
  (["none", "fused", "separate"] as const).flatMap((bias) =>
    (["oi", "io"] as const).map((weightLayout) => ({ fusedWeight, bias, weightLayout })),
  ),
);
const E = 24;
const gqa = { numHeads: 4, numKvHeads: 2, headDim: 5, widths: [E, E, E], outputs: 17 } as const;

describeVariants("multiHeadAttention", (runtime, variant) => {
  type Operands = readonly [TestTensor, TestTensor, TestTensor];
  const check = (
    [q, k, v]: Operands,
    weights: Weights,
    options: OtherOptions,
    form: Form = {},
    on: Runtime = runtime,
  ): void => {
    const label = `q [${q.shape}] k [${k.shape}] v [${v.shape}] ${JSON.stringify(form)} ${describeOptions(options)}`;
    const hasBias = form.bias !== "none";
    const { want, tolerances } = solveMultiHead(label, [q, k, v], weights, options, hasBias);
    const all = { ...options, ...inForm(weights, form) };
    const isSelf = k === q && v === q;
    const got = isSelf ? on.multiHeadAttention(q, all) : on.multiHeadAttention(q, k, v, all);
    expectClose(got, want[0] as TestTensor, tolerances[0] as number, label);
  };

  it("takes weights in every form, self and cross, grouped or not", () => {
    for (const form of forms) {
      for (const numKvHeads of [1, 2, 4]) {
        const shape = { ...gqa, numKvHeads };
        const weights = randomWeights(shape, 7 + numKvHeads);
        const options = { numHeads: 4, numKvHeads };
        const x = randomTensor([2, 9, E], 1);
        check([x, x, x], weights, options, form);
        check([x, randomTensor([2, 13, E], 2), randomTensor([2, 13, E], 3)], weights, options, form);
      }
    }
  });

  it("takes a width of its own for query, key, value, value heads and output", () => {
    const shape = {
      numHeads: 6,
      numKvHeads: 3,
      headDim: 7,
      valueDim: 4,
      widths: [11, 8, 5],
      outputs: 3,
    } as const;
    const operands = [
      randomTensor([2, 3, 11], 1),
      randomTensor([2, 33, 8], 2),
      randomTensor([2, 33, 5], 3),
    ] as const;
    for (const weightLayout of ["oi", "io"] as const) {
      check(operands, randomWeights(shape, 5), { numHeads: 6, numKvHeads: 3 }, { weightLayout });
    }
  });

  it("takes one head, one token, any batch axes or none, and a batch of 1 that serves every other", () => {
    const weights = randomWeights({ ...gqa, numHeads: 1, numKvHeads: 1 }, 3);
    for (const shape of [
      [1, E],
      [7, E],
      [3, 1, E],
      [2, 3, 5, E],
    ]) {
      const x = randomTensor(shape, 1);
      check([x, x, x], weights, { numHeads: 1 }, { fusedWeight: true });
    }
    const [one, many] = [randomTensor([1, 4, E], 1), randomTensor([3, 6, E], 2)];
    check([one, many, many], weights, { numHeads: 1 });
    check([many, one, one], weights, { numHeads: 1 });
  });

  it("knows the options of attention", () => {
    const weights = randomWeights(gqa, 11);
    const x = randomTensor([2, 20, E], 1);
    const options: Omit<OtherOptions, "numHeads" | "numKvHeads">[] = [
      { isCausal: true },
      { attnMask: booleanMask([2, 4, 20, 20], 2) },
      { attnMask: additiveMask([20, 20], 3), isCausal: true },
      { kvLengths: Int32Array.of(20, 3), scale: 0.3 },
      { windowSize: [3, 1], queryOffset: Int32Array.of(0, 2) },
      { softcap: 2, sinks: randomTensor([4], 4) },
      { alibiSlopes: randomTensor([2, 4], 5), causalAlignment: "bottomRight" },
      { dropoutP: 0.4, seed: 99 },
    ];
    for (const some of options) check([x, x, x], weights, { numHeads: 4, numKvHeads: 2, ...some });
  });

  it("turns query and key heads by rotary tables", () => {
    const weights = randomWeights({ ...gqa, headDim: 6 }, 13);
    const x = randomTensor([2, 9, E], 1);
    const tables = runtime.rotaryTables(40, 6);
    const perToken = { cos: randomTensor([2, 9, 2], 2), sin: randomTensor([2, 9, 2], 3) };
    const positionIds = Int32Array.from({ length: 18 }, (_, i) => (7 * i) % 40);
    for (const rotary of [
      tables,
      { ...tables, positionOffset: 31 },
      { ...tables, positionIds, interleaved: true },
      { ...runtime.rotaryTables(9, 4), rotaryDim: 4 },
      { ...perToken, rotaryDim: 4 },
    ]) {
      check(
        [x, x, x],
        weights,
        { numHeads: 4, numKvHeads: 2, rotary, isCausal: true },
        { fusedWeight: true },
      );
    }
  });

  it("has the bits of the steps by hand", () => {
    const weights = randomWeights(gqa, 17);
    const [x, y] = [randomTensor([2, 40, E], 1), randomTensor([2, 50, E], 2)];
    const linear = (a: TestTensor, { weight, bias }: Weights["qProj"], weightLayout: "oi" | "io") =>
      weightLayout === "io"
        ? runtime.matmul(a, transposed(weight), { c: bias })
        : runtime.matmul(a, weight, { transposeB: true, c: bias });
    const heads = ({ data, shape: [b = 0, l = 0] }: TestTensor, n: number) => ({ data, shape: [b, l, n, 5] });
    for (const weightLayout of ["oi", "io"] as const) {
      const q = heads(linear(x, weights.qProj, weightLayout), 4);
      const k = heads(linear(y, weights.kProj, weightLayout), 2);
      const v = heads(linear(y, weights.vProj, weightLayout), 2);
      const out = runtime.scaledDotProductAttention(q, k, v, { layout: "blhd", isCausal: true });
      const want = linear({ data: out.data, shape: [2, 40, 20] }, weights.outProj, weightLayout);
      const all = { numHeads: 4, numKvHeads: 2, isCausal: true };
      for (const fusedWeight of [false, true]) {
        const form = inForm(weights, { weightLayout, fusedWeight });
        const got = runtime.multiHeadAttention(x, y, undefined, { ...all, ...form });
        expectSame(got, want, JSON.stringify({ weightLayout, fusedWeight }));
      }
    }
  });

  it("takes a boolean mask as attention does: true = attend", () => {
    const x = randomTensor([2, E], 1);
    const options = { numHeads: 4, numKvHeads: 2, ...inForm(randomWeights(gqa, 19)) };
    const first = { data: [true, false], shape: [1, 2] };
    const one = { data: x.data.slice(0, E), shape: [1, E] };
    const { data } = runtime.multiHeadAttention(one, options);
    expectSame(runtime.multiHeadAttention(one, x, x, { ...options, attnMask: first }), {
      data,
      shape: [1, 17],
    });
  });

  it("never lets what stands behind kvLengths reach the result", () => {
    const options = { numHeads: 4, numKvHeads: 2, ...inForm(randomWeights(gqa, 23)) };
    const [x, padded] = [randomTensor([1, 3, E], 1), randomTensor([1, 6, E], 2)];
    const short = { data: padded.data.slice(0, 4 * E), shape: [1, 4, E] };
    padded.data.fill(NaN, 4 * E);
    const got = runtime.multiHeadAttention(x, padded, padded, { ...options, kvLengths: Int32Array.of(4) });
    expectSame(got, runtime.multiHeadAttention(x, short, short, options));
  });

  it("takes empty sizes: of no keys remains the output bias", () => {
    const weights = randomWeights(gqa, 29);
    const options = { numHeads: 4, numKvHeads: 2, ...inForm(weights) };
    for (const shape of [
      [0, 3, E],
      [2, 0, E],
    ]) {
      expectSame(runtime.multiHeadAttention(zeros(...shape), options), zeros(...shape.slice(0, 2), 17));
    }
    const x = randomTensor([2, E], 1);
    const got = runtime.multiHeadAttention(x, zeros(0, E), undefined, options);
    expectSame(got, {
      data: Float32Array.of(...weights.outProj.bias.data, ...weights.outProj.bias.data),
      shape: [2, 17],
    });
    const narrow = randomWeights({ ...gqa, widths: [0, 0, 0] }, 31);
    check([zeros(2, 0), zeros(2, 0), zeros(2, 0)], narrow, { numHeads: 4, numKvHeads: 2 });
    const silent = inForm(randomWeights({ ...gqa, outputs: 0 }, 37));
    expectSame(runtime.multiHeadAttention(x, { ...options, ...silent }), zeros(2, 0));
  });

  it("is resident where operands and weights are, with the same bits", () => {
    const weights = inForm(randomWeights({ ...gqa, outputs: E }, 41), { fusedWeight: true, bias: "fused" });
    const x = randomTensor([2, 9, E], 1);
    const all = { numHeads: 4, numKvHeads: 2 };
    const want = runtime.multiHeadAttention(x, { ...all, ...weights });
    using rx = runtime.tensor(x.shape, x.data);
    const there = residentWeights(runtime, weights);
    using got = runtime.multiHeadAttention(rx, { ...all, ...there });
    expectSame(got, want);
    expect(runtime.multiHeadAttention(x, { ...all, ...there })).not.toHaveProperty("dispose");
    expect(runtime.multiHeadAttention(rx, { ...all, ...weights })).not.toHaveProperty("dispose");
    expectSame(runtime.multiHeadAttention(rx, { ...all, ...weights }), want);
    const out = zeros(2, 9, E);
    expect(runtime.multiHeadAttention(rx, { ...all, ...there, out })).toBe(out);
    expectSame(out, want);
    runtime.multiHeadAttention(rx, { ...all, ...there, out: rx });
    expectSame(rx, want, "over the query");
    for (const t of Object.values(there)) t.dispose();
  });

  it("leaves memory as it was over thousands of calls, those that throw among them", () => {
    const on = createRuntimeSync({ variant: variant === "relaxed" ? "relaxed" : "simd" });
    const weights = inForm(randomWeights({ ...gqa, outputs: E }, 43));
    const x = randomTensor([1, 3, E], 1);
    using rx = on.tensor(x.shape, x.data);
    const there = residentWeights(on, weights);
    const all = { numHeads: 4, numKvHeads: 2, ...there };
    on.multiHeadAttention(rx, all).dispose();
    on.multiHeadAttention(x, { ...all, ...weights });
    const { memoryBytes } = on.info();
    for (let i = 0; i < 2000; i++) {
      on.multiHeadAttention(rx, all).dispose();
      on.multiHeadAttention(x, { ...all, ...weights });
      expect(() => on.multiHeadAttention(rx, { ...all, attnMask: zeros(2, 2) })).toThrow(RangeError);
      expect(() => on.multiHeadAttention(rx, { ...all, out: zeros(2, 2) })).toThrow(RangeError);
    }
    expect(on.info().memoryBytes).toBe(memoryBytes);
  });

  it("equals the reference for any shape and options, whatever memory held before", () => {
    const problem = fc.record({
      problem: fullProblem(),
      width: fc.constantFrom(1, 3, 8, 17, 33),
      outputs: fc.constantFrom(1, 8, 19),
      form: fc.constantFrom(...forms),
    });
    fc.assert(
      fc.property(problem, ({ problem: { shape, options, seed }, width, outputs, form }) => {
        const { batch, heads, kvHeads, lq, lk, d, dv } = shape;
        const valueDim = form.fusedWeight ? d : dv;
        const sizes = { numHeads: heads, numKvHeads: kvHeads, headDim: d, valueDim, outputs };
        const weights = randomWeights({ ...sizes, widths: [width, width, width] }, seed);
        const [q, k, v] = [
          randomTensor([batch, lq, width], seed + 1),
          randomTensor([batch, lk, width], seed + 2),
          randomTensor([batch, lk, width], seed + 3),
        ] as const;
        const all = { ...options, numHeads: heads, numKvHeads: kvHeads };
        check([q, k, v], weights, all, form);
        check([q, k, v], weights, all, form, littered(variant, NaN));
      }),
      runs(25),
    );
  });
});

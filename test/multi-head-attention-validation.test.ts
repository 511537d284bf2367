import { describe, expect, it } from "vitest";
import { createRuntimeSync } from "../src/index.ts";
import { inForm, randomWeights } from "./multi-head.ts";
import { itRefuses, type TestTensor, type WrongCall, zeros } from "./support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
const shape = { numHeads: 4, numKvHeads: 2, headDim: 3, widths: [10, 10, 10], outputs: 10 } as const;
const separate = { numHeads: 4, numKvHeads: 2, ...inForm(randomWeights(shape, 1)) };
const fused = {
  numHeads: 4,
  numKvHeads: 2,
  ...inForm(randomWeights(shape, 1), { fusedWeight: true, bias: "fused" }),
};
const x = zeros(2, 5, 10);
const attend = (options: object, ...operands: TestTensor[]) => {
  const [query = x, ...others] = operands;
  return others.length === 0
    ? runtime.multiHeadAttention(query, options as never)
    : runtime.multiHeadAttention(query, others[0], others[1], options as never);
};
const without = (name: string, options: object): object =>
  Object.fromEntries(Object.entries(options).filter(([key]) => key !== name));

const wrong: WrongCall[] = [
  [
    "no options",
    () => attend(undefined as never),
    TypeError,
    /multiHeadAttention: arguments must be \(x, options\) or .* got \d without options/,
  ],
  [
    "unknown option",
    () => attend({ ...fused, needWeights: true }),
    TypeError,
    /multiHeadAttention: unknown option "needWeights"; this version knows numHeads, numKvHeads, inProjWeight,/,
  ],
  ["layout", () => attend({ ...fused, layout: "blhd" }), TypeError, /unknown option "layout"/],
  [
    "numHeads missing",
    () => attend(without("numHeads", fused)),
    TypeError,
    /numHeads must be .* got undefined/,
  ],
  [
    "numHeads 0",
    () => attend({ ...fused, numHeads: 0 }),
    RangeError,
    /numHeads must be an integer of 1 or more, got 0/,
  ],
  ["numKvHeads", () => attend({ ...fused, numKvHeads: 1.5 }), RangeError, /numKvHeads must be .* got 1\.5/],
  [
    "heads",
    () => attend({ ...fused, numKvHeads: 3 }),
    RangeError,
    /numHeads must be a multiple of numKvHeads, got 4 and 3/,
  ],
  [
    "width that heads do not divide",
    () => attend({ numHeads: 4, inProjWeight: zeros(30, 10), outProjWeight: zeros(10, 10) }),
    RangeError,
    /outputs of inProjWeight must be a multiple of numHeads \+ 2 numKvHeads, got 30 and 4 \+ 2 \* 4: inProjWeight \[30, 10\]/,
  ],
  [
    "outputs of qProjWeight",
    () => attend({ ...separate, qProjWeight: zeros(10, 10) }),
    RangeError,
    /outputs of qProjWeight must be a multiple of numHeads, got 10 and 4: qProjWeight \[10, 10\]/,
  ],
  [
    "outputs of kProjWeight",
    () => attend({ ...separate, kProjWeight: zeros(8, 10) }),
    RangeError,
    /kProjWeight must be numKvHeads 2 times the headDim 3 of qProjWeight, got 8: kProjWeight \[8, 10\], qProjWeight \[12, 10\]/,
  ],
  [
    "outputs of vProjWeight",
    () => attend({ ...separate, vProjWeight: zeros(7, 10) }),
    RangeError,
    /outputs of vProjWeight must be a multiple of numKvHeads, got 7 and 2/,
  ],
  [
    "inputs of inProjWeight",
    () => attend(fused, zeros(5, 8)),
    RangeError,
    /inputs of inProjWeight must be the width of query, got 10 and 8: inProjWeight \[24, 10\], query \[5, 8\]/,
  ],
  [
    "inputs for value",
    () => attend(separate, x, x, zeros(2, 5, 4)),
    RangeError,
    /inputs of vProjWeight must be the width of value, got 10 and 4/,
  ],
  [
    "inputs of outProjWeight",
    () => attend({ ...separate, outProjWeight: zeros(10, 10) }),
    RangeError,
    /inputs of outProjWeight must be numHeads 4 times the width 3 of a value head, got 10: outProjWeight \[10, 10\]/,
  ],
  [
    "rank of a weight",
    () => attend({ ...fused, outProjWeight: zeros(120) }),
    RangeError,
    /outProjWeight must have shape \[outputs, inputs\], got \[120\]/,
  ],
  [
    "rank of a weight in the other layout",
    () => attend({ ...fused, weightLayout: "io", inProjWeight: zeros(1, 10, 24) }),
    RangeError,
    /inProjWeight must have shape \[inputs, outputs\], got \[1, 10, 24\]/,
  ],
  [
    "weightLayout",
    () => attend({ ...fused, weightLayout: "hwio" }),
    TypeError,
    /weightLayout must be "oi" or "io", got "hwio"/,
  ],
  [
    "both forms of the weights",
    () => attend({ ...fused, kProjWeight: zeros(6, 10) }),
    TypeError,
    /inProjWeight holds all three projections; leave out kProjWeight/,
  ],
  [
    "a weight missing",
    () => attend(without("vProjWeight", separate)),
    TypeError,
    /weights must be inProjWeight or qProjWeight, kProjWeight, vProjWeight, got qProjWeight, kProjWeight/,
  ],
  ["no weights", () => attend({ numHeads: 1, outProjWeight: x }), TypeError, /got none of them/],
  ["no outProjWeight", () => attend(without("outProjWeight", fused)), TypeError, /outProjWeight is missing/],
  [
    "a bias",
    () => attend({ ...separate, kProjBias: zeros(12) }),
    RangeError,
    /kProjBias must have shape \[6\], one number for each output, got \[12\]/,
  ],
  [
    "the fused bias",
    () => attend({ ...fused, inProjBias: zeros(12) }),
    RangeError,
    /inProjBias must have shape \[24\]/,
  ],
  [
    "both forms of the biases",
    () => attend({ ...fused, qProjBias: zeros(12) }),
    TypeError,
    /inProjBias holds all three biases; leave out qProjBias/,
  ],
  [
    "ranks",
    () => attend(fused, x, zeros(5, 10)),
    RangeError,
    /must have one rank of 2 or more, got query \[2, 5, 10\], key \[5, 10\]/,
  ],
  [
    "a vector",
    () => attend(fused, zeros(10)),
    RangeError,
    /must have one rank of 2 or more, got query \[10\]/,
  ],
  [
    "lengths",
    () => attend(separate, x, x, zeros(2, 4, 10)),
    RangeError,
    /batch axes and length of value must be those of key, got .* value \[2, 4, 10\]/,
  ],
  [
    "batches",
    () => attend(separate, x, zeros(3, 5, 10)),
    RangeError,
    /batch axes of query and key must be the same, or 1 in one of them, got query \[2, 5, 10\], key \[3, 5, 10\]/,
  ],
  [
    "a mask",
    () => attend({ ...fused, attnMask: zeros(2, 5) }),
    RangeError,
    /multiHeadAttention: attnMask must broadcast to .* = \[2, 4, 5, 5\], got \[2, 5\]/,
  ],
  ["sinks", () => attend({ ...fused, sinks: zeros(2) }), RangeError, /sinks must have shape \[4\]/],
  [
    "dropout",
    () => attend({ ...fused, dropoutP: 0.5 }),
    TypeError,
    /multiHeadAttention: dropoutP needs a seed/,
  ],
  [
    "out",
    () => attend({ ...fused, out: zeros(2, 5, 12) }),
    RangeError,
    /out\.shape must be \[2, 5, 10\], got \[2, 5, 12\]/,
  ],
  [
    "rotary of a key of its own",
    () => attend({ ...fused, rotary: { cos: zeros(5, 1), sin: zeros(5, 1) } }, x, zeros(2, 5, 10)),
    TypeError,
    /multiHeadAttention: rotary is for self-attention/,
  ],
  [
    "option of rotary",
    () => attend({ ...fused, rotary: { cos: zeros(5, 1), sin: zeros(5, 1), layout: "blhd" } }),
    TypeError,
    /multiHeadAttention: rotary: unknown option "layout"/,
  ],
  [
    "tables of rotary",
    () => attend({ ...fused, rotary: { cos: zeros(5, 2), sin: zeros(5, 2), rotaryDim: 2 } }),
    RangeError,
    /multiHeadAttention: rotary: cos\.shape must be \[positions, 1\]/,
  ],
];

describe("multiHeadAttention validation", () => {
  itRefuses(runtime, wrong);

  it("refuses an out over a weight, a mask or a part of the query, and what is disposed", () => {
    const weight = runtime.tensor([12, 10]);
    const out = { data: weight.data.subarray(0, 100), shape: [2, 5, 10] };
    const over = /multiHeadAttention: out must not overlap qProjWeight in Wasm memory/;
    expect(() => attend({ ...separate, qProjWeight: weight, out })).toThrow(over);
    const part = { data: weight.data.subarray(20, 120), shape: [2, 5, 10] };
    expect(() => attend({ ...fused, out }, part)).toThrow(/out must not overlap query in/);
    const attnMask = { data: weight.data.subarray(0, 25), shape: [5, 5] };
    expect(() => attend({ ...fused, attnMask, out })).toThrow(/out must not overlap attnMask/);
    const cos = { data: weight.data.subarray(0, 5), shape: [5, 1] };
    const rotary = { cos, sin: zeros(5, 1), rotaryDim: 2 };
    expect(() => attend({ ...fused, rotary, out })).toThrow(/out must not overlap rotary\.cos/);
    weight.dispose();
    expect(() => attend({ ...separate, qProjWeight: weight })).toThrow(
      /multiHeadAttention: qProjWeight is a resident tensor of shape \[12, 10\] that was disposed/,
    );
  });

  it("gives back everything where memory is exhausted", () => {
    const small = createRuntimeSync({ variant: "simd", maxMemoryBytes: 2 ** 20 });
    using query = small.tensor([2000, 10]);
    const weights = {
      numHeads: 1,
      inProjWeight: small.tensor([120, 10]),
      outProjWeight: small.tensor([10, 40]),
    };
    for (let i = 0; i < 3; i++) {
      expect(() => small.multiHeadAttention(query, weights)).toThrow(
        /multiHeadAttention: needs .* maxMemoryBytes/,
      );
    }
    using rest = small.tensor([200_000]); // what the failed calls had allocated is free again
    expect(rest.size).toBe(200_000);
  });
});

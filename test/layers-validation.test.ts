import { describe, expect, it } from "vitest";
import { createRuntimeSync, rotaryTables } from "../src/index.ts";
import { itRefuses, type TestTensor, type WrongCall, zeros } from "./support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
const wrongNorms: WrongCall[] = [
  ["scalar", () => runtime.layerNorm(zeros()), RangeError, /layerNorm: x must have rank 1 or more/],
  [
    "axis",
    () => runtime.rmsNorm(zeros(2, 2), { axis: 2 }),
    RangeError,
    /rmsNorm: axis must be from -2 to 1 for rank 2, got 2/,
  ],
  [
    "weight",
    () => runtime.layerNorm(zeros(2, 3), { weight: zeros(2) }),
    RangeError,
    /layerNorm: weight\.shape must be \[3\], the axes of x \[2, 3\] from 1 on, got \[2\]/,
  ],
  [
    "bias",
    () => runtime.layerNorm(zeros(2, 3), { bias: zeros(3), axis: 0 }),
    RangeError,
    /layerNorm: bias\.shape must be \[2, 3\], the axes of x \[2, 3\] from 0 on, got \[3\]/,
  ],
  [
    "negative eps",
    () => runtime.layerNorm(zeros(2), { eps: -1 }),
    RangeError,
    /layerNorm: eps must be a finite number of 0 or more, got -1/,
  ],
  ["eps NaN", () => runtime.rmsNorm(zeros(2), { eps: NaN }), RangeError, /rmsNorm: eps .* got NaN/],
  [
    "eps type",
    () => runtime.rmsNorm(zeros(2), { eps: "0" as never }),
    TypeError,
    /rmsNorm: eps must be a finite number of 0 or more, got "0"/,
  ],
  [
    "returnStats",
    () => runtime.layerNorm(zeros(2), { returnStats: 1 as never }),
    TypeError,
    /returnStats must be true or false, got 1/,
  ],
  [
    "bias of rmsNorm",
    () => runtime.rmsNorm(zeros(2), { bias: zeros(2) } as never),
    TypeError,
    /rmsNorm: unknown option "bias"; this version knows weight, axis, eps, out/,
  ],
  [
    "out",
    () => runtime.layerNorm(zeros(2), { out: zeros(1, 2) }),
    RangeError,
    /layerNorm: out\.shape must be \[2\], got \[1, 2\]/,
  ],
];

describe("norm validation", () => {
  itRefuses(runtime, wrongNorms);

  it("refuse an out over a weight, and what is disposed", () => {
    const t = runtime.tensor([3]);
    expect(() => runtime.layerNorm(zeros(3), { weight: t, out: t })).toThrow(/out must not overlap weight/);
    expect(() => runtime.layerNorm(zeros(3), { bias: t, out: t })).toThrow(/out must not overlap bias/);
    t.dispose();
    expect(() => runtime.rmsNorm(t)).toThrow(
      /rmsNorm: x is a resident tensor of shape \[3\] that was disposed/,
    );
  });

  it("give back everything where memory is exhausted", () => {
    const small = createRuntimeSync({ variant: "simd", maxMemoryBytes: 2 ** 20 });
    using x = small.tensor([70_000, 1]); // x, out and mean are 840,000 bytes: no room for rstd
    for (let i = 0; i < 3; i++)
      expect(() => small.layerNorm(x, { returnStats: true })).toThrow(/layerNorm: needs/);
    using y = small.tensor([140_000]); // what the failed calls had allocated is free again
    expect(y.size).toBe(140_000);
  });
});

const turn = (x: TestTensor, cos: TestTensor, sin: TestTensor, options?: object) =>
  runtime.rotaryEmbedding(x, cos, sin, options);
const [x, cos] = [zeros(2, 1, 3, 8), zeros(5, 4)];
const wrongRotary: WrongCall[] = [
  ["rank", () => turn(zeros(8), cos, cos), RangeError, /x must have shape \[\.\.\., heads, .* got \[8\]/],
  [
    "rank of blhd",
    () => turn(zeros(3, 8), cos, cos, { layout: "blhd" }),
    RangeError,
    /x must have shape \[\.\.\., length, heads, headDim\], got \[3, 8\]/,
  ],
  ["layout", () => turn(x, cos, cos, { layout: "lbhd" }), TypeError, /layout must be "bhld" or "blhd"/],
  [
    "odd headDim",
    () => turn(zeros(3, 7), cos, cos),
    RangeError,
    /rotaryDim, the headDim of x by default, must be an even integer from 2 to the headDim 7 of x, got 7/,
  ],
  [
    "rotaryDim",
    () => turn(x, cos, cos, { rotaryDim: 10 }),
    RangeError,
    /rotaryDim must be an even integer from 2 to the headDim 8 of x, got 10/,
  ],
  ["rotaryDim type", () => turn(x, cos, cos, { rotaryDim: "4" }), TypeError, /even integer .* got "4"/],
  [
    "cos",
    () => turn(x, zeros(5, 8), cos),
    RangeError,
    /cos\.shape must be \[positions, 4\] or \[2, 3, 4\], half of rotaryDim wide, got \[5, 8\]/,
  ],
  [
    "sin",
    () => turn(x, cos, zeros(4, 4)),
    RangeError,
    /sin\.shape must be that of cos \[5, 4\], got \[4, 4\]/,
  ],
  [
    "too few positions",
    () => turn(x, zeros(2, 4), zeros(2, 4)),
    RangeError,
    /positionOffset \+ 3 tokens must be at most the 2 rows of cos, got 0/,
  ],
  [
    "positionOffset",
    () => turn(x, cos, cos, { positionOffset: 3 }),
    RangeError,
    /positionOffset \+ 3 tokens must be at most the 5 rows of cos, got 3/,
  ],
  ["negative offset", () => turn(x, cos, cos, { positionOffset: -1 }), RangeError, /0 or more.* got -1/],
  [
    "offset type",
    () => turn(x, cos, cos, { positionOffset: null }),
    TypeError,
    /an integer of 0 or more, got null/,
  ],
  [
    "positionIds type",
    () => turn(x, cos, cos, { positionIds: [0, 1, 2] }),
    TypeError,
    /positionIds must be an Int32Array, got \[0, 1, 2\]/,
  ],
  [
    "positionIds length",
    () => turn(x, cos, cos, { positionIds: new Int32Array(4) }),
    RangeError,
    /positionIds must hold one entry for each of 3 tokens, or of 2 times as many, got 4/,
  ],
  [
    "positionIds value",
    () => turn(x, cos, cos, { positionIds: Int32Array.of(0, 5, 1) }),
    RangeError,
    /positionIds must be from 0 to 4, the rows of cos, got 5 at 1/,
  ],
  [
    "both positions",
    () => turn(x, cos, cos, { positionIds: new Int32Array(3), positionOffset: 0 }),
    TypeError,
    /positionIds and positionOffset both set the position/,
  ],
  [
    "positions beside rows of each token",
    () => turn(x, zeros(2, 3, 4), zeros(2, 3, 4), { positionOffset: 1 }),
    TypeError,
    /cos and sin of each token take no positionOffset, got 1/,
  ],
  [
    "table length",
    () => rotaryTables(-1, 4),
    RangeError,
    /rotaryTables: length must be an integer from 0 to 268435456, got -1/,
  ],
  ["table width", () => rotaryTables(1, 3), RangeError, /rotaryDim must be even, got 3/],
  ["base", () => rotaryTables(1, 2, { base: 0 }), RangeError, /base must be a positive number, got 0/],
  [
    "offset",
    () => rotaryTables(1, 2, { offset: "1" as never }),
    TypeError,
    /offset must be an integer .* got "1"/,
  ],
  ["unknown option", () => rotaryTables(1, 2, { scale: 2 } as never), TypeError, /unknown option "scale"/],
];

describe("rotary validation", () => {
  itRefuses(runtime, wrongRotary);

  it("refuses an out over a table", () => {
    const t = runtime.tensor([3, 4]);
    const out = { data: t.data.subarray(0, 8), shape: [1, 8] };
    expect(() => turn(zeros(1, 8), t, zeros(3, 4), { out })).toThrow(/out must not overlap cos/);
    expect(() => turn(zeros(1, 8), zeros(3, 4), t, { out })).toThrow(/out must not overlap sin/);
    t.dispose();
  });
});

describe("matmulBackward validation", () => {
  const [a, b, dOut] = [zeros(2, 3), zeros(3, 4), zeros(2, 4)];
  itRefuses(runtime, [
    [
      "dOut",
      () => runtime.matmulBackward({ dOut: zeros(4, 2), a, b }),
      RangeError,
      /matmulBackward: dOut\.shape must be that of the result \[2, 4\], got \[4, 2\]/,
    ],
    [
      "inner lengths",
      () => runtime.matmulBackward({ dOut, a, b: zeros(4, 4) }),
      RangeError,
      /matmulBackward: inner lengths must be equal, got 3 of a \[2, 3\] and 4 of b \[4, 4\]/,
    ],
    [
      "c",
      () => runtime.matmulBackward({ dOut, a, b, c: zeros(3) }),
      RangeError,
      /matmulBackward: c must broadcast to the result \[2, 4\], got \[3\]/,
    ],
    [
      "beta without c",
      () => runtime.matmulBackward({ dOut, a, b, beta: 1 }),
      TypeError,
      /matmulBackward: beta is the factor on c, but c is not given/,
    ],
    [
      "an input that is missing",
      () => runtime.matmulBackward({ dOut, a } as never),
      TypeError,
      /matmulBackward: b must be a tensor \{ data, shape \}, got undefined/,
    ],
    [
      "an unknown option",
      () => runtime.matmulBackward({ dOut, a, b, out: a } as never),
      TypeError,
      /matmulBackward: unknown option "out"; this version knows dOut, a, b, transposeA/,
    ],
    [
      "transposeA",
      () => runtime.matmulBackward({ dOut, a, b, transposeA: 1 as never }),
      TypeError,
      /matmulBackward: transposeA must be true or false, got 1/,
    ],
  ]);

  it("gives back everything where memory is exhausted", () => {
    const small = createRuntimeSync({ variant: "simd", maxMemoryBytes: 2 ** 20 });
    using x = small.tensor([2 ** 8, 2 ** 8]);
    using y = small.tensor([2 ** 8, 2 ** 8]);
    const call = () => small.matmulBackward({ dOut: x, a: x, b: y });
    for (let i = 0; i < 3; i++) expect(call).toThrow(/matmulBackward: needs/);
    using z = small.tensor([2 ** 16]);
    expect(z.size).toBe(2 ** 16);
  });
});

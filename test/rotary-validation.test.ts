import { describe, expect, it } from "vitest";
import { createRuntimeSync, rotaryTables } from "../src/index.ts";
import { itRefuses, type TestTensor, type WrongCall, zeros } from "./support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
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

import { describe, expect, it } from "vitest";
import { createRuntimeSync } from "../src/index.ts";
import { itRefuses, type WrongCall, zeros } from "./support.ts";

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

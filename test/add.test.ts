import { describe, expect, it } from "vitest";
import { createRuntimeSync } from "../src/index.ts";
import { describeVariants, expectSame, itRefuses, randomTensor, zeros } from "./support.ts";

describeVariants("add", (runtime) => {
  it("adds every element, with one rounding, at every length", () => {
    for (let n = 0; n <= 37; n++) {
      const [x, y] = [randomTensor([n], n), randomTensor([n], n + 100)];
      const want = x.data.map((v, i) => Math.fround(v + (y.data[i] as number)));
      expectSame(runtime.add(x, y), { data: want, shape: [n] }, `length ${n}`);
    }
  });

  it("keeps the shape and follows IEEE: infinities, NaN, zeros, subnormal numbers, overflow", () => {
    const x = { data: Float32Array.of(Infinity, Infinity, NaN, -0, -0, 1e-45, 3e38, 1), shape: [2, 1, 4] };
    const y = { data: Float32Array.of(-Infinity, 1, 1, -0, 0, 1e-45, 3e38, -1), shape: [2, 1, 4] };
    const want = Float32Array.of(NaN, Infinity, NaN, -0, 0, 2.8e-45, Infinity, 0);
    expectSame(runtime.add(x, y), { data: want, shape: [2, 1, 4] });
  });

  it("writes into out, which may be either operand, and is resident where both are", () => {
    const [x, y] = [randomTensor([3, 7], 1), randomTensor([3, 7], 2)];
    const want = runtime.add(x, y);
    const [before, out, inPlace] = [structuredClone(x), zeros(3, 7), structuredClone(x)];
    expect(runtime.add(x, y, { out })).toBe(out);
    expect(runtime.add(inPlace, y, { out: inPlace })).toBe(inPlace);
    expectSame(out, want);
    expectSame(inPlace, want);
    expectSame(x, before);
    using rx = runtime.tensor(x.shape, x.data);
    using ry = runtime.tensor(y.shape, y.data);
    using sum = runtime.add(rx, ry);
    expectSame(sum, want);
    expect(runtime.add(rx, y)).not.toHaveProperty("dispose");
    runtime.add(rx, ry, { out: ry });
    expectSame(ry, want);
    runtime.add(rx, rx, { out: rx });
    expectSame(rx, runtime.scale(x, 2));
  });
});

describe("add validation", () => {
  const runtime = createRuntimeSync({ variant: "simd" });
  itRefuses(runtime, [
    [
      "another shape",
      () => runtime.add(zeros(2, 3), zeros(3)),
      RangeError,
      /add: y\.shape must be that of x \[2, 3\], got \[3\]/,
    ],
    [
      "out of another shape",
      () => runtime.add(zeros(2), zeros(2), { out: zeros(1, 2) }),
      RangeError,
      /add: out\.shape must be \[2\], got \[1, 2\]/,
    ],
    [
      "unknown option",
      () => runtime.add(zeros(2), zeros(2), { alpha: 2 } as never),
      TypeError,
      /add: unknown option "alpha"; this version knows out/,
    ],
    ["type of y", () => runtime.add(zeros(2), [1, 2] as never), TypeError, /add: y must be a tensor/],
  ]);

  it("refuses an out that overlaps an operand without being it", () => {
    const block = runtime.tensor([8]);
    const part = (from: number) => ({ data: block.data.subarray(from, from + 4), shape: [4] });
    expect(() => runtime.add(part(0), part(4), { out: part(2) })).toThrow(/add: out must not overlap x/);
    expect(() => runtime.add(zeros(4), part(4), { out: part(2) })).toThrow(/add: out must not overlap y/);
    block.dispose();
  });
});

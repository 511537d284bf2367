import { expect, it } from "vitest";
import { describeVariants, expectSame, randomTensor } from "./support.ts";

describeVariants("scale", (runtime) => {
  it("multiplies every element, with one rounding, at every length", () => {
    for (let n = 1; n <= 37; n++) {
      const x = randomTensor([n], n);
      for (const alpha of [1 / 3, -2.5, 1, 1e-30]) {
        const want = x.data.map((v) => Math.fround(v * Math.fround(alpha)));
        expectSame(runtime.scale(x, alpha), { data: want, shape: [n] }, `length ${n}, alpha ${alpha}`);
      }
    }
  });

  it("keeps the shape and follows IEEE: 0 x finite, 0 x NaN, overflow", () => {
    const x = { data: Float32Array.of(1, -1, NaN, Infinity, 3e38, 0), shape: [1, 2, 3] };
    expectSame(runtime.scale(x, 0), { data: Float32Array.of(0, -0, NaN, NaN, 0, 0), shape: [1, 2, 3] });
    expectSame(runtime.scale(x, 2), {
      data: Float32Array.of(2, -2, NaN, Infinity, Infinity, 0),
      shape: [1, 2, 3],
    });
  });

  it("writes into out, which may be the input, and leaves the input otherwise", () => {
    const x = randomTensor([3, 7], 1);
    const before = x.data.slice();
    const want = runtime.scale(x, 3);
    const out = { data: new Float32Array(21).fill(NaN), shape: [3, 7] };
    expect(runtime.scale(x, 3, { out })).toBe(out);
    expectSame(out, want);
    expect(x.data).toEqual(before);
    runtime.scale(x, 3, { out: x });
    expectSame(x, want);
  });

  it("takes empty tensors", () => {
    const empty = { data: new Float32Array(0), shape: [0, 3] };
    expectSame(runtime.scale(empty, 2), empty);
  });

  it("works on resident tensors in place", () => {
    const x = randomTensor([5, 5], 2);
    using resident = runtime.tensor(x.shape, x.data);
    runtime.scale(resident, -0.5, { out: resident });
    expectSame({ data: resident.data, shape: [...resident.shape] }, runtime.scale(x, -0.5));
  });
});

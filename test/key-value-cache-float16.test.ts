import { expect, it } from "vitest";
import { halfTensor } from "./reference/float16.ts";
import { describeVariants, randomTensor } from "./support.ts";

describeVariants("KeyValueCache of float16", (runtime) => {
  it("NaN, Infinity and overflow in a float16 cache reach the rows that see them, and leave with the reset", () => {
    const x = randomTensor([1, 1, 24, 8], 4);
    const bad = { ...x, data: x.data.slice() };
    bad.data[8 * 8] = 1e6; // token 8
    bad.data[9 * 8 + 1] = Number.NaN;
    using cache = runtime.keyValueCache({ numKvHeads: 1, headDim: 8, dtype: "float16" });
    using clean = runtime.keyValueCache({ numKvHeads: 1, headDim: 8, dtype: "float16" });
    cache.append(x, bad);
    clean.append(x, x);
    const keep = Uint8Array.from({ length: 24 }, (_, j) => (j === 8 || j === 9 ? 0 : 1));
    const attnMask = { data: keep, shape: [24] };
    const query = randomTensor([1, 1, 1, 8], 5);
    expect(cache.attend(query, { attnMask }).data).toEqual(clean.attend(query, { attnMask }).data);
    const seen = cache.attend(query).data;
    expect(seen[0]).toBe(Infinity);
    expect(seen[1]).toBeNaN();
    expect(seen[2]).toBe(clean.attend(query).data[2]);
    cache.reset();
    cache.append(x, x);
    expect(cache.attend(query).data).toEqual(clean.attend(query).data);
  });

  it("halves of which many are subnormal give the same", () => {
    const x = randomTensor([1, 1, 512, 64], 6);
    const query = randomTensor([1, 1, 1, 64], 7);
    for (const factor of [1, 1e-4, 2e-5, 1e-6]) {
      const k = { ...x, data: x.data.map((value) => value * factor) };
      using cache = runtime.keyValueCache({ numKvHeads: 1, headDim: 64, dtype: "float16" });
      cache.append(k, k);
      const want = runtime.scaledDotProductAttention(query, halfTensor(k), halfTensor(k));
      expect(cache.attend(query).data, `times ${factor}`).toEqual(want.data);
    }
  });

  it("queries too large for the quick way over halves take the other one", () => {
    using cache = runtime.keyValueCache({ numKvHeads: 1, headDim: 8, dtype: "float16" });
    const k = randomTensor([1, 1, 40, 8], 6);
    const small = { ...k, data: k.data.map((x) => x * 1e-6) };
    cache.append(small, k);
    const query = { data: new Float32Array(8).fill(1e6), shape: [1, 1, 1, 8] };
    const want = runtime.scaledDotProductAttention(query, halfTensor(small), halfTensor(k));
    expect(cache.attend(query).data).toEqual(want.data);
  });
});

import { expect, it } from "vitest";
import {
  blockSizes,
  booleanMask,
  describeVariants,
  expectAttention,
  expectClose,
  expectSame,
  qkv,
  randomTensor,
} from "./support.ts";

describeVariants("scaledDotProductAttention at its edges", (runtime, variant) => {
  it("gives dead rows exactly 0 and lse -Infinity", () => {
    const operands = qkv(1, 2, 2, 4, 6, 8, 8);
    const attnMask = booleanMask([4, 6], 1, 1);
    attnMask.data.fill(0, 6, 12);
    const { out, lse } = runtime.scaledDotProductAttention(...operands, { attnMask, returnLse: true });
    for (const h of [0, 1]) {
      expect(Array.from(out.data.subarray((h * 4 + 1) * 8, (h * 4 + 2) * 8))).toEqual(Array(8).fill(0));
      expect(lse.data[h * 4 + 1]).toBe(-Infinity);
      expect(lse.data[h * 4]).toBeGreaterThan(-10);
    }
    const all = { data: new Float32Array(24).fill(-Infinity), shape: [4, 6] };
    const dead = runtime.scaledDotProductAttention(...operands, { attnMask: all, returnLse: true });
    expectSame(dead.out, { data: new Float32Array(64), shape: [1, 2, 4, 8] });
    expectSame(dead.lse, { data: new Float32Array(8).fill(-Infinity), shape: [1, 2, 4] });
  });

  it("finds the first live key after whole blocks of masked ones", () => {
    const { BLOCK_K } = blockSizes(variant);
    const lk = 2 * BLOCK_K + 32;
    for (const live of [[BLOCK_K - 1], [BLOCK_K], [2 * BLOCK_K, 2 * BLOCK_K + 1], [0, lk - 1], [lk - 1]]) {
      const attnMask = { data: new Uint8Array(lk), shape: [lk] };
      for (const j of live) attnMask.data[j] = 1;
      const bias = { data: Float32Array.from(attnMask.data, (x) => (x ? 0.5 : -Infinity)), shape: [lk] };
      for (const lq of [1, 9]) {
        expectAttention(runtime, ...qkv(1, 1, 1, lq, lk, 8, 8), { attnMask });
        expectAttention(runtime, ...qkv(1, 1, 1, lq, lk, 8, 8), { attnMask: bias });
      }
    }
  });

  it("does not take a large finite mask value for a masked key", () => {
    const operands = qkv(1, 1, 1, 3, 5, 4, 4);
    for (const value of [-3.4e38, -1e9, -1e4]) {
      expectAttention(runtime, ...operands, {
        attnMask: { data: new Float32Array(15).fill(value), shape: [3, 5] },
      });
    }
    // All scores drown in -3.4e38, so the weights are equal: the mean of the values.
    const attnMask = { data: new Float32Array(15).fill(-3.4e38), shape: [3, 5] };
    const { out, lse } = runtime.scaledDotProductAttention(...operands, { attnMask, returnLse: true });
    const mean = Array.from(
      { length: 4 },
      (_, c) => [0, 1, 2, 3, 4].reduce((sum, j) => sum + (operands[2].data[j * 4 + c] as number), 0) / 5,
    );
    expectClose(out, { data: [...mean, ...mean, ...mean], shape: [1, 1, 3, 4] }, 1e-6);
    expect(lse.data[0]).toBe(Math.fround(-3.4e38));
  });

  it("holds for scores so large that the softmax is one-hot, of either sign", () => {
    for (const scale of [50, -50, 1e4, 1e20])
      expectAttention(runtime, ...qkv(1, 1, 1, 9, 150, 8, 8), { scale });
    // The running maximum grows with every key, and falls.
    const ramp = { data: Float32Array.from({ length: 300 }, (_, j) => j), shape: [300, 1] };
    const q = { data: Float32Array.of(1, -1), shape: [2, 1] };
    expectAttention(runtime, q, ramp, randomTensor([300, 4], 3), { scale: 1 });
  });

  it("gives zeros and -Infinity without keys, and nothing without queries, batch or heads", () => {
    const none = runtime.scaledDotProductAttention(...qkv(2, 2, 2, 3, 0, 4, 5), { returnLse: true });
    expectSame(none.out, { data: new Float32Array(60), shape: [2, 2, 3, 5] });
    expectSame(none.lse, { data: new Float32Array(12).fill(-Infinity), shape: [2, 2, 3] });
    for (const [b, h, lq] of [
      [0, 2, 3],
      [2, 0, 3],
      [2, 2, 0],
    ] as const) {
      const { out, lse } = runtime.scaledDotProductAttention(...qkv(b, h, h, lq, 4, 4, 5), {
        returnLse: true,
      });
      expectSame(out, { data: new Float32Array(0), shape: [b, h, lq, 5] });
      expectSame(lse, { data: new Float32Array(0), shape: [b, h, lq] });
    }
    expectSame(runtime.scaledDotProductAttention(...qkv(1, 1, 1, 2, 3, 4, 0)), {
      data: new Float32Array(0),
      shape: [1, 1, 2, 0],
    });
  });

  it("gives NaN where a live score is +Infinity", () => {
    const [q, k, v] = qkv(1, 1, 1, 2, 9, 1, 3);
    q.data.set([1, 0.5]);
    k.data[8] = Infinity;
    const out = runtime.scaledDotProductAttention(q, k, v);
    expect(Array.from(out.data)).toEqual(Array(6).fill(NaN));
  });

  it("writes into out, returns it, and gives the same bits", () => {
    const operands = qkv(2, 2, 1, 5, 9, 8, 6);
    const want = runtime.scaledDotProductAttention(...operands, { returnLse: true });
    const out = { data: new Float32Array(want.out.data.length).fill(NaN), shape: want.out.shape };
    expect(runtime.scaledDotProductAttention(...operands, { out })).toBe(out);
    expectSame(out, want.out);
    out.data.fill(NaN);
    const both = runtime.scaledDotProductAttention(...operands, { out, returnLse: true });
    expect(both.out).toBe(out);
    expectSame(out, want.out);
    expectSame(both.lse, want.lse);
  });

  it("takes dims for shape, views at any offset, and resident tensors, all with the same bits", () => {
    const operands = qkv(2, 4, 2, 5, 9, 7, 6);
    const want = runtime.scaledDotProductAttention(...operands, { isCausal: true });
    const dims = operands.map(({ data, shape }) => ({ data, dims: shape }));
    expectSame(runtime.scaledDotProductAttention(dims[0]!, dims[1]!, dims[2]!, { isCausal: true }), want);
    const views = operands.map(({ data, shape }, i) => {
      const wide = new Float32Array(data.length + 11).fill(NaN);
      wide.set(data, i + 1);
      return { data: wide.subarray(i + 1, i + 1 + data.length), shape };
    });
    expectSame(runtime.scaledDotProductAttention(views[0]!, views[1]!, views[2]!, { isCausal: true }), want);
    const residents = operands.map(({ data, shape }) => runtime.tensor(shape, data));
    const got = runtime.scaledDotProductAttention(residents[0]!, residents[1]!, residents[2]!, {
      isCausal: true,
    });
    expectSame({ data: got.data.slice(), shape: [...got.shape] }, want);
    for (const tensor of [...residents, got]) tensor.dispose();
  });
});

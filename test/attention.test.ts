import { expect, it } from "vitest";
import type { AttentionOptions } from "../src/index.ts";
import {
  additiveMask,
  blockSizes,
  booleanMask,
  describeVariants,
  expectAttention,
  expectSame,
  qkv,
  randomTensor,
} from "./support.ts";

describeVariants("scaledDotProductAttention", (runtime, variant) => {
  /** The keys each query attends to, read off the output: equal weights over values that are unit vectors. */
  const pattern = (lq: number, lk: number, options: AttentionOptions): string[] => {
    const value = { data: new Float32Array(lk * lk), shape: [lk, lk] };
    for (let j = 0; j < lk; j++) value.data[j * lk + j] = 1;
    const [q, k] = [randomTensor([lq, 3], 1), randomTensor([lk, 3], 2)];
    const { data } = runtime.scaledDotProductAttention(q, k, value, {
      ...options,
      scale: 0,
      returnLse: false,
    });
    return Array.from({ length: lq }, (_, i) =>
      Array.from(data.subarray(i * lk, (i + 1) * lk), (p) => (p > 0 ? 1 : 0)).join(""),
    );
  };

  it("is right for every head size and remainder of the lengths", () => {
    let seed = 1;
    for (const d of [1, 2, 3, 4, 5, 7, 8, 31, 59, 64, 65, 100, 128, 256]) {
      for (const [lq, lk] of [
        [1, 1],
        [1, 9],
        [5, 4],
        [7, 8],
        [9, 33],
      ] as const) {
        const dv = [d, 1, 5, 48][seed % 4] as number;
        expectAttention(runtime, ...qkv(1, 2, 2, lq, lk, d, dv, seed++));
      }
    }
  });

  it("is right across the blocks of queries and keys", () => {
    const { BLOCK_Q, BLOCK_K, FEW_QUERIES } = blockSizes(variant);
    for (const [lq, lk] of [
      [BLOCK_Q - 1, BLOCK_K - 1],
      [BLOCK_Q, BLOCK_K],
      [BLOCK_Q + 1, BLOCK_K + 1],
      [2 * BLOCK_Q + 2, 2 * BLOCK_K + 1],
      [FEW_QUERIES, BLOCK_K + 1],
      [FEW_QUERIES + 1, BLOCK_K + 1],
      [3, 4 * BLOCK_K + 65],
      [4 * BLOCK_Q + 1, 3],
    ] as const) {
      const operands = qkv(1, 1, 1, lq, lk, 3, 2, lq);
      expectAttention(runtime, ...operands);
      expectAttention(runtime, ...operands, { isCausal: true });
      expectAttention(runtime, ...operands, { isCausal: true, causalAlignment: "bottomRight" });
      expectAttention(runtime, ...operands, { attnMask: booleanMask([lq, lk], lq) });
    }
  });

  it("shares key and value heads between consecutive query heads", () => {
    for (const [h, hKv] of [
      [4, 1],
      [4, 2],
      [6, 3],
      [6, 2],
      [8, 8],
    ] as const) {
      expectAttention(runtime, ...qkv(2, h, hKv, 5, 7, 8, 6, h));
      expectAttention(runtime, ...qkv(2, h, hKv, 5, 7, 8, 6, h), {
        isCausal: true,
        attnMask: booleanMask([h, 1, 7], h),
      });
    }
  });

  it("takes rank 2 as one head and rank 3 as heads", () => {
    const two = [randomTensor([5, 8], 1), randomTensor([7, 8], 2), randomTensor([7, 3], 3)] as const;
    expectAttention(runtime, ...two);
    expect(runtime.scaledDotProductAttention(...two, { returnLse: true }).lse.shape).toEqual([5]);
    const three = [
      randomTensor([4, 5, 8], 1),
      randomTensor([2, 7, 8], 2),
      randomTensor([2, 7, 3], 3),
    ] as const;
    expectAttention(runtime, ...three, { attnMask: booleanMask([4, 5, 7], 4) });
    expect(runtime.scaledDotProductAttention(...three, { returnLse: true }).lse.shape).toEqual([4, 5]);
  });

  it("takes any number of batch axes, and a batch of 1 for every batch", () => {
    const of = (lead: number[], heads: number, length: number, width: number, seed: number) =>
      randomTensor([...lead, heads, length, width], seed);
    const five = [of([2, 3], 4, 5, 8, 1), of([2, 3], 2, 7, 8, 2), of([2, 3], 2, 7, 3, 3)] as const;
    expectAttention(runtime, ...five, { kvLengths: Int32Array.of(7, 6, 5, 3, 1, 0) });
    expectAttention(runtime, ...five, { attnMask: booleanMask([2, 3, 1, 5, 7], 4) });
    expectAttention(runtime, of([3], 4, 5, 8, 1), of([1], 2, 7, 8, 2), of([1], 2, 7, 3, 3), {
      isCausal: true,
    });
    expectAttention(runtime, of([1], 4, 5, 8, 1), of([3], 2, 7, 8, 2), of([1], 2, 7, 3, 3));
    expectAttention(runtime, of([1], 4, 5, 8, 1), of([3], 2, 7, 8, 2), of([3], 2, 7, 3, 3));
  });

  it("reads blhd in place: [batch, length, heads, headDim]", () => {
    const q = randomTensor([2, 5, 4, 8], 1);
    const [k, v] = [randomTensor([2, 9, 2, 8], 2), randomTensor([2, 9, 2, 6], 3)];
    expectAttention(runtime, q, k, v, { layout: "blhd" });
    expectAttention(runtime, q, k, v, {
      layout: "blhd",
      isCausal: true,
      attnMask: additiveMask([2, 4, 5, 9], 4),
    });
    expectAttention(
      runtime,
      randomTensor([5, 4, 8], 1),
      randomTensor([9, 2, 8], 2),
      randomTensor([9, 2, 6], 3),
      { layout: "blhd" },
    );
  });

  it("broadcasts masks right-aligned to [batch, heads, lq, lk], boolean and additive", () => {
    const [b, h, lq, lk] = [2, 4, 5, 7];
    for (const shape of [
      [lk],
      [1],
      [lq, lk],
      [lq, 1],
      [1, lk],
      [h, lq, lk],
      [h, 1, lk],
      [1, lq, lk],
      [b, h, lq, lk],
    ]) {
      expectAttention(runtime, ...qkv(b, h, 2, lq, lk, 8, 8), { attnMask: booleanMask(shape, 3) });
      expectAttention(runtime, ...qkv(b, h, 2, lq, lk, 8, 8), { attnMask: additiveMask(shape, 3) });
    }
    for (const shape of [
      [b, 1, lq, lk],
      [b, 1, 1, lk],
      [b, h, 1, 1],
      [b, 1, lq, 1],
      [1, h, lq, 1],
      [b, 1, 1, 1],
      [],
    ]) {
      expectAttention(runtime, ...qkv(b, h, 4, lq, lk, 5, 3), { attnMask: booleanMask(shape, 5) });
      expectAttention(runtime, ...qkv(b, h, 4, lq, lk, 5, 3), { attnMask: additiveMask(shape, 5) });
    }
  });

  it("takes Uint8Array, Uint8ClampedArray and boolean[] for the same, any non-zero being true", () => {
    const operands = qkv(1, 2, 2, 5, 9, 8, 8);
    const { data, shape } = booleanMask([5, 9], 2);
    const want = runtime.scaledDotProductAttention(...operands, { attnMask: { data, shape } });
    const others = [
      data.map((x) => x * 255),
      Uint8ClampedArray.from(data, (x) => 2 * x),
      Array.from(data, (x) => x === 1),
    ];
    for (const other of others) {
      expectSame(runtime.scaledDotProductAttention(...operands, { attnMask: { data: other, shape } }), want);
    }
  });

  it("aligns causal masks as stated where lengths differ", () => {
    expect(pattern(2, 5, { isCausal: true })).toEqual(["10000", "11000"]);
    expect(pattern(5, 2, { isCausal: true })).toEqual(["10", "11", "11", "11", "11"]);
    expect(pattern(2, 5, { isCausal: true, causalAlignment: "bottomRight" })).toEqual(["11110", "11111"]);
    expect(pattern(5, 2, { isCausal: true, causalAlignment: "bottomRight" })).toEqual([
      "00",
      "00",
      "00",
      "10",
      "11",
    ]);
    expect(pattern(3, 4, { isCausal: true, queryOffset: 1 })).toEqual(["1100", "1110", "1111"]);
    expect(pattern(3, 4, { isCausal: true, queryOffset: -2 })).toEqual(["0000", "0000", "1000"]);
    expect(pattern(3, 4, { isCausal: true, queryOffset: 100 })).toEqual(["1111", "1111", "1111"]);
    expect(pattern(3, 4, { isCausal: true, queryOffset: -100 })).toEqual(["0000", "0000", "0000"]);
    expect(pattern(3, 4, { queryOffset: -100 })).toEqual(["1111", "1111", "1111"]);
    for (const far of [2 ** 31 - 1, 2 ** 31, 1e15]) {
      expect(pattern(2, 3, { isCausal: true, queryOffset: far })).toEqual(["111", "111"]);
      expect(pattern(2, 3, { isCausal: true, queryOffset: -far })).toEqual(["000", "000"]);
      expect(pattern(2, 3, { queryOffset: far })).toEqual(["111", "111"]);
      expect(pattern(2, 3, { queryOffset: -far })).toEqual(["111", "111"]);
    }
  });

  it("takes lengths and offsets of each batch entry", () => {
    const kvLengths = Int32Array.of(9, 4, 1, 0);
    const operands = qkv(4, 4, 2, 5, 9, 8, 8);
    expectAttention(runtime, ...operands, { kvLengths });
    expectAttention(runtime, ...operands, { kvLengths, isCausal: true });
    expectAttention(runtime, ...operands, { kvLengths, isCausal: true, causalAlignment: "bottomRight" });
    expectAttention(runtime, ...operands, { isCausal: true, queryOffset: Int32Array.of(0, 4, -3, 20) });
    expectAttention(runtime, ...operands, {
      kvLengths,
      isCausal: true,
      queryOffset: Int32Array.of(4, -1, 0, 2),
      attnMask: booleanMask([4, 1, 1, 9], 4),
    });
  });

  it("takes 0 and negative numbers as scale, and 1/sqrt of the query's head size by default", () => {
    for (const scale of [0, -0.5, 1, 8, 1e-3])
      expectAttention(runtime, ...qkv(1, 2, 1, 5, 9, 16, 4), { scale });
    const operands = qkv(1, 2, 1, 5, 9, 16, 4);
    expectSame(
      runtime.scaledDotProductAttention(...operands),
      runtime.scaledDotProductAttention(...operands, { scale: 0.25 }),
    );
  });
});

import { expect, it } from "vitest";
import type { AttentionOptions, Tensor } from "../src/index.ts";
import { blockSizes, describeVariants, expectAttention, randomTensor } from "./support.ts";

/** Rows [begin, end) of a [heads, length, width] tensor. */
function rows(x: Tensor, begin: number, end: number): Tensor {
  const [heads, length, width] = x.shape as [number, number, number];
  const data = new Float32Array(heads * (end - begin) * width);
  for (let h = 0; h < heads; h++) {
    data.set(
      x.data.subarray((h * length + begin) * width, (h * length + end) * width),
      h * (end - begin) * width,
    );
  }
  return { data, shape: [heads, end - begin, width] };
}

const random = (shape: number[], seed: number) => randomTensor(shape, seed) as Tensor;

const everything: AttentionOptions = {
  queryOffset: 640,
  isCausal: true,
  windowSize: [500, 7],
  softcap: 3,
  alibiSlopes: random([4], 10),
  sinks: random([4], 11),
};

describeVariants("few queries", (runtime, variant) => {
  const { FEW_QUERIES, FEW_ROWS } = blockSizes(variant);
  const cases: [
    name: string,
    heads: number,
    kvHeads: number,
    lk: number,
    d: number,
    dv: number,
    options: AttentionOptions,
  ][] = [
    ["plain", 2, 2, 257, 64, 64, {}],
    ["grouped heads, odd widths", 6, 2, 121, 31, 7, {}],
    ["causal", 2, 1, 130, 40, 40, { isCausal: true, queryOffset: 125 }],
    ["one key", 1, 1, 1, 5, 3, {}],
    ["kvLengths", 4, 4, 300, 16, 17, { kvLengths: Int32Array.of(123) }],
    ["window, softcap, ALiBi and sinks", 4, 2, 700, 24, 9, everything],
  ];
  it.each(cases)("gives each row the bits it has among many: %s", (_, heads, kvHeads, lk, d, dv, options) => {
    const q = random([heads, 7 + FEW_QUERIES, d], 1);
    const k = random([kvHeads, lk, d], 2);
    const v = random([kvHeads, lk, dv], 3);
    const whole = runtime.scaledDotProductAttention(q, k, v, { ...options, returnLse: true });
    for (const [begin, end] of [
      [0, 1],
      [3, 5],
      [5, 8],
      [7, 7 + FEW_QUERIES],
    ] as const) {
      const moved =
        options.queryOffset === undefined
          ? options
          : { ...options, queryOffset: (options.queryOffset as number) + begin };
      const part = runtime.scaledDotProductAttention(rows(q, begin, end), k, v, {
        ...moved,
        returnLse: true,
      });
      expect(part.out.data).toEqual(rows(whole.out, begin, end).data);
      const lse = { data: whole.lse.data, shape: [...whole.lse.shape, 1] };
      expect(part.lse.data).toEqual(rows(lse, begin, end).data);
    }
  });

  it("matmul gives each row the bits it has among many, on every path", () => {
    for (const transposeB of [false, true]) {
      const b = random(transposeB ? [70, 301] : [301, 70], 5);
      const m = FEW_ROWS + 10;
      const a = random([1, m, 301], 4);
      const whole = runtime.matmul({ data: a.data, shape: [m, 301] }, b, { transposeB });
      for (const [begin, end] of [
        [0, 1],
        [1, 3],
        [3, 8],
        [8, 8 + FEW_ROWS],
        [8, 9 + FEW_ROWS],
      ] as const) {
        const part = runtime.matmul({ data: rows(a, begin, end).data, shape: [end - begin, 301] }, b, {
          transposeB,
        });
        expect(part.data).toEqual(whole.data.slice(begin * 70, end * 70));
      }
    }
  });

  it("equals the reference with masks of every kind", () => {
    const q = random([2, 4, 3, 24], 6);
    const k = random([2, 2, 250, 24], 7);
    const v = random([2, 2, 250, 9], 8);
    const bias = random([2, 4, 3, 250], 9).data.map((x) => (x > 0.5 ? -Infinity : x));
    const keep = Uint8Array.from({ length: 4 * 3 * 250 }, (_, i) => (Math.floor(i / 130) + i) % 3);
    expectAttention(runtime, q, k, v, { attnMask: { data: bias, shape: [2, 4, 3, 250] } });
    expectAttention(runtime, q, k, v, {
      attnMask: { data: keep, shape: [4, 3, 250] },
      isCausal: true,
      causalAlignment: "bottomRight",
    });
    expectAttention(runtime, q, k, v, { attnMask: { data: new Uint8Array(250), shape: [250] } });
  });

  it("a window that begins past the last key leaves rows without a key", () => {
    const k = random([1, 30, 8], 2);
    for (const lq of [1, FEW_QUERIES, FEW_QUERIES + 1]) {
      const { out, lse } = runtime.scaledDotProductAttention(random([2, lq, 8], 1), k, k, {
        windowSize: [9, 3],
        queryOffset: 100,
        returnLse: true,
      });
      expect(out.data).toEqual(new Float32Array(2 * lq * 8));
      expect(lse.data).toEqual(new Float32Array(2 * lq).fill(-Infinity));
    }
  });

  it("a masked NaN or Infinity never leaks, a live one reaches its row alone", () => {
    const q = random([2, 2, 8], 1);
    const k = random([1, 200, 8], 2);
    const v = random([1, 200, 8], 3);
    const mask = new Uint8Array(2 * 200).fill(1);
    mask[150] = 0; // row 0 does not see key 150
    v.data[150 * 8] = Number.NaN;
    k.data[150 * 8 + 1] = Number.POSITIVE_INFINITY;
    const { data } = runtime.scaledDotProductAttention(q, k, v, {
      attnMask: { data: mask, shape: [2, 200] },
    });
    for (let h = 0; h < 2; h++) {
      expect(data.subarray(h * 16, h * 16 + 8).every(Number.isFinite)).toBe(true);
      expect(data[h * 16 + 8]).toBeNaN();
    }
  });
});

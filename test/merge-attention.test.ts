import { expect, it } from "vitest";
import type { AttentionOptions, Tensor } from "../src/index.ts";
import { describeVariants, expectClose, randomTensor, solveAttention, type TestTensor } from "./support.ts";

/** Keys [begin, end) of a [batch, heads, length, width] tensor. */
function keysOf(x: TestTensor, begin: number, end: number): TestTensor {
  const [batch, heads, length, width] = x.shape as [number, number, number, number];
  const data = new Float32Array(batch * heads * (end - begin) * width);
  for (let bh = 0; bh < batch * heads; bh++) {
    const from = (bh * length + begin) * width;
    data.set(x.data.subarray(from, from + (end - begin) * width), bh * (end - begin) * width);
  }
  return { data, shape: [batch, heads, end - begin, width] };
}

describeVariants("mergeAttention", (runtime) => {
  const [q, k, v] = [
    randomTensor([2, 4, 9, 16], 1),
    randomTensor([2, 2, 300, 16], 2),
    randomTensor([2, 2, 300, 5], 3),
  ];

  const splits: [name: string, bounds: number[]][] = [
    ["2 parts", [0, 211, 300]],
    ["3 parts, the last entirely masked for some rows", [0, 40, 296, 300]],
    ["7 parts, one empty", [0, 1, 8, 8, 77, 150, 299, 300]],
  ];
  it.each(splits)("equals the whole: %s", (_, bounds) => {
    const options: AttentionOptions = { isCausal: true, queryOffset: 292 };
    const { want, tolerances } = solveAttention("merge", [q, k, v], options);
    const parts = bounds.slice(1).map((end, i) => {
      const begin = bounds[i] as number;
      const here = { isCausal: true, queryOffset: 292 - begin, returnLse: true } as const;
      return runtime.scaledDotProductAttention(q, keysOf(k, begin, end), keysOf(v, begin, end), here);
    });
    const merged = runtime.mergeAttention(parts);
    expectClose(merged.out, want[0] as Tensor, tolerances[0] as number, "out");
    expectClose(merged.lse, want[1] as Tensor, tolerances[1] as number, "lse");
  });

  it("one part is itself, an empty part is neutral whatever its output, parts without keys give 0", () => {
    const part = runtime.scaledDotProductAttention(q, k, v, { returnLse: true });
    const nothing = {
      out: { data: new Float32Array(part.out.data.length).fill(NaN), shape: part.out.shape },
      lse: { data: new Float32Array(part.lse.data.length).fill(-Infinity), shape: part.lse.shape },
    };
    expect(runtime.mergeAttention([part]).out).toEqual(part.out);
    expect(runtime.mergeAttention([nothing, part, nothing])).toEqual(runtime.mergeAttention([part]));
    const dead = runtime.mergeAttention([nothing, nothing]);
    expect(dead.out.data).toEqual(new Float32Array(part.out.data.length));
    expect(dead.lse.data).toEqual(nothing.lse.data);
  });

  it("blhd has the outputs in that order, and lse as ever", () => {
    const x = randomTensor([1, 3, 2, 4], 7); // [batch, length, heads, width]
    const parts = [5, 6].map((seed) => {
      const y = randomTensor([1, 8, 2, 4], seed);
      return runtime.scaledDotProductAttention(x, y, y, { layout: "blhd", returnLse: true });
    });
    const merged = runtime.mergeAttention(parts, { layout: "blhd" });
    const [first, second] = parts as [(typeof parts)[0], (typeof parts)[0]];
    for (const [b, l, h] of [
      [0, 0, 0],
      [0, 1, 0],
      [0, 2, 1],
    ] as const) {
      const row = (b * 2 + h) * 3 + l;
      const share = 1 / (1 + Math.exp((second.lse.data[row] as number) - (first.lse.data[row] as number)));
      const at = ((b * 3 + l) * 2 + h) * 4;
      const want = share * (first.out.data[at] as number) + (1 - share) * (second.out.data[at] as number);
      expect(merged.out.data[at]).toBeCloseTo(want, 6);
    }
  });

  it("resident parts give a resident result", () => {
    const resident = (x: Tensor) => runtime.tensor(x.shape, x.data);
    const part = runtime.scaledDotProductAttention(q, k, v, { returnLse: true });
    const held = { out: resident(part.out), lse: resident(part.lse) };
    const merged = runtime.mergeAttention([held, held]);
    expect(merged.out.data).toEqual(part.out.data);
    for (const tensor of [held.out, held.lse, merged.out, merged.lse]) tensor.dispose();
  });

  it("says what does not fit", () => {
    const part = runtime.scaledDotProductAttention(q, k, v, { returnLse: true });
    const other = { ...part, out: randomTensor([2, 4, 9, 4], 1) };
    expect(() => runtime.mergeAttention([])).toThrow(/mergeAttention: parts must be an array of one or more/);
    expect(() => runtime.mergeAttention([part, other])).toThrow(
      /parts\[1\]\.out\.shape must be \[2, 4, 9, 5\] as in parts\[0\]/,
    );
    expect(() => runtime.mergeAttention([{ ...part, lse: part.out }])).toThrow(
      /parts\[0\]\.lse\.shape must be \[2, 4, 9\]/,
    );
    expect(() => runtime.mergeAttention([3 as never])).toThrow(/parts\[0\] must be \{ out, lse \}, got 3/);
    expect(() => runtime.mergeAttention([part], { axis: 1 } as never)).toThrow(/unknown option "axis"/);
  });
});

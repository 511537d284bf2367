import { describe, expect, it } from "vitest";
import { createRuntimeSync, scaledDotProductAttention } from "../../src/index.ts";
import { attention } from "../../src/onnx/index.ts";
import {
  describeVariants,
  expectSame,
  freshRuntime,
  littered,
  maxError,
  qkv,
  randomTensor,
  type TestTensor,
  zeros,
} from "../support.ts";

/** Rows `from` to `end` of the lengths of [batch, heads, length, width]. */
function rows({ data, shape }: TestTensor, from: number, end: number): TestTensor {
  const [b, h, length, width] = shape as [number, number, number, number];
  const parts = Array.from({ length: b * h }, (_, bh) =>
    data.subarray((bh * length + from) * width, (bh * length + end) * width),
  );
  return { data: Float32Array.from(parts.flatMap((part) => [...part])), shape: [b, h, end - from, width] };
}

/** [b, h, length, width] as the operator takes it with rank 3: [b, length, h * width]. */
function packed({ data, shape }: TestTensor): TestTensor {
  const [b, h, length, width] = shape as [number, number, number, number];
  const result = new Float32Array(data.length);
  data.forEach((x, at) => {
    const [row, c] = [Math.floor(at / width), at % width];
    const [bi, hi, i] = [Math.floor(row / (h * length)), Math.floor(row / length) % h, row % length];
    result[((bi * length + i) * h + hi) * width + c] = x;
  });
  return { data: result, shape: [b, length, h * width] };
}

describeVariants("ONNX attention over past and present", (runtime) => {
  const [heads, kvHeads, length] = [6, 2, 17];
  const [q, k, v] = qkv(2, heads, kvHeads, length, length, 8, 5, 3);
  const whole = attention({ is_causal: 1 }, { Q: q, K: k, V: v }, { runtime }).Y;

  const chunked = (sizes: number[], isPacked: boolean) => {
    const form = isPacked ? packed : (x: TestTensor) => x;
    const attributes = { is_causal: 1, ...(isPacked ? { q_num_heads: heads, kv_num_heads: kvHeads } : {}) };
    let past = { past_key: zeros(2, kvHeads, 0, 8), past_value: zeros(2, kvHeads, 0, 5) };
    let from = 0;
    return sizes.map((size) => {
      const [Q, K, V] = [q, k, v].map((x) => form(rows(x, from, from + size))) as [
        TestTensor,
        TestTensor,
        TestTensor,
      ];
      const { Y, present_key, present_value } = attention(attributes, { Q, K, V, ...past }, { runtime });
      past = { past_key: present_key as TestTensor, past_value: present_value as TestTensor };
      expectSame(past.past_key, rows(k, 0, from + size), "present_key");
      expectSame(past.past_value, rows(v, 0, from + size), "present_value");
      expectSame(Y, form(rows(whole, from, from + size)), `rows from ${from} on`);
      from += size;
      return Y;
    });
  };

  it.each([
    ["token by token", new Array<number>(length).fill(1)],
    ["in chunks", [5, 1, 7, 4]],
    ["at once", [length]],
  ])("has the bits of one pass, %s", (_, sizes) => {
    expect(chunked(sizes, false)).toHaveLength(sizes.length);
    expect(chunked(sizes, true)).toHaveLength(sizes.length);
  });

  it("is the same with a cache outside, whatever stands behind what counts", () => {
    const room = 23;
    const cached = (x: TestTensor) => {
      const cache = { ...zeros(2, kvHeads, room, x.shape[3] as number) };
      cache.data.fill(Number.NaN);
      for (let bh = 0; bh < 2 * kvHeads; bh++) {
        const n = length * (x.shape[3] as number);
        cache.data.set(x.data.subarray(bh * n, (bh + 1) * n), (bh * room * n) / length);
      }
      return cache;
    };
    const nonpad_kv_seqlen = { data: BigInt64Array.of(17n, 17n), shape: [2] };
    const inputs = { Q: rows(q, 12, 17), K: cached(k), V: cached(v), nonpad_kv_seqlen };
    expectSame(attention({ is_causal: 1 }, inputs, { runtime }).Y, rows(whole, 12, 17));
  });

  it("is what scaledDotProductAttention gives", () => {
    expectSame(whole, runtime.scaledDotProductAttention(q, k, v, { isCausal: true }));
  });
});

describeVariants("ONNX attention, hidden numbers", (runtime, variant) => {
  it("keeps NaN behind a mask out of every output but the raw scores", () => {
    const [Q, K, V] = qkv(1, 2, 1, 3, 5, 4, 4, 5);
    K.data.fill(Number.NaN, 3 * 4);
    V.data.fill(Number.NaN, 3 * 4);
    const attn_mask = { data: [true, false, true], shape: [3] }; // short: keys 3 and 4 are hidden too
    const outputs = ["qk_matmul_output"] as const;
    const scores = [0, 1, 2, 3].map((mode) => {
      const attributes = { qk_matmul_output_mode: mode, softcap: 2 };
      const { Y, qk_matmul_output } = attention(attributes, { Q, K, V, attn_mask }, { runtime, outputs });
      expect(Y.data.every(Number.isFinite)).toBe(true);
      return qk_matmul_output.data.subarray(0, 5);
    });
    for (const row of scores.slice(0, 2))
      expect([...row].map(Number.isNaN)).toEqual([0, 0, 0, 1, 1].map(Boolean));
    expect([...scores[2]!].map((s) => s === -Infinity)).toEqual([0, 1, 0, 1, 1].map(Boolean));
    expect([...scores[3]!].map((p) => p === 0)).toEqual([0, 1, 0, 1, 1].map(Boolean));
  });

  it("gives 0 and -Infinity where no key is left", () => {
    const [Q, K, V] = qkv(1, 1, 1, 4, 2, 4, 4, 6);
    const nonpad_kv_seqlen = { data: [2], shape: [1] }; // queries stand at -2, -1, 0 and 1
    const outputs = ["qk_matmul_output"] as const;
    const run = (mode: number) =>
      attention(
        { is_causal: 1, qk_matmul_output_mode: mode },
        { Q, K, V, nonpad_kv_seqlen },
        { runtime, outputs },
      );
    expect([...run(3).Y.data.subarray(0, 8)]).toEqual(new Array(8).fill(0));
    expect([...run(2).qk_matmul_output.data.subarray(0, 4)]).toEqual(new Array(4).fill(-Infinity));
    expect([...run(3).qk_matmul_output.data.subarray(0, 5)]).toEqual([0, 0, 0, 0, 1]);
  });

  it("reads nothing that it has not written", () => {
    const [Q, K, V] = qkv(2, 4, 2, 5, 9, 3, 5, 7);
    const attributes = { is_causal: 1, qk_matmul_output_mode: 3 };
    const outputs = ["qk_matmul_output"] as const;
    const all = (on: typeof runtime) => attention(attributes, { Q, K, V }, { runtime: on, outputs });
    const [clean, dirty] = [all(runtime), all(littered(variant, Number.NaN))];
    expectSame(dirty.Y, clean.Y);
    expectSame(dirty.qk_matmul_output, clean.qk_matmul_output);
  });
});

describe("ONNX attention, outputs", () => {
  const [Q, K, V] = qkv(1, 2, 2, 3, 4, 4, 5, 8);
  const past = { past_key: zeros(1, 2, 2, 4), past_value: zeros(1, 2, 2, 5) };

  it("gives Y, and the cache where a past is given", () => {
    expect(Object.keys(attention({}, { Q, K, V }))).toEqual(["Y"]);
    expect(Object.keys(attention({}, { Q, K, V, ...past }))).toEqual(["Y", "present_key", "present_value"]);
    expect(Object.keys(attention({}, { Q, K, V, ...past }, { outputs: ["Y"] }))).toEqual(["Y"]);
    expect(Object.keys(attention({}, { Q, K, V, ...past }, { outputs: [] }))).toEqual(["Y"]);
  });

  it("takes null for an optional input that is left out", () => {
    const none = { attn_mask: null, past_key: null, past_value: null, nonpad_kv_seqlen: null };
    const given = { Q, K, V, ...none } as unknown as Parameters<typeof attention>[1];
    expectSame(attention({}, given).Y, attention({}, { Q, K, V }).Y);
    expect(() => attention({}, { ...given, K: null } as never)).toThrow(
      /input K is required by Attention-25/,
    );
  });

  it("takes key lengths of more batch entries than a call has arguments", () => {
    const batch = 150_000;
    const one = zeros(batch, 1, 1, 1);
    const nonpad_kv_seqlen = { data: new Int32Array(batch).fill(1), shape: [batch] };
    expect(attention({}, { Q: one, K: one, V: one, nonpad_kv_seqlen }).Y.shape).toEqual([batch, 1, 1, 1]);
  });

  it("gives K and V as present without a past, in memory of their own", () => {
    const outputs = ["present_key", "present_value"] as const;
    const { present_key, present_value } = attention({}, { Q, K, V }, { outputs });
    expectSame(present_key, K);
    expectSame(present_value, V);
    expect(present_key.data.buffer).not.toBe(K.data.buffer);
    const heads = { q_num_heads: 2, kv_num_heads: 2 };
    const rank3 = attention(heads, { Q: packed(Q), K: packed(K), V: packed(V) }, { outputs });
    expectSame(rank3.present_key, K);
    expectSame(rank3.present_value, V);
  });

  it("takes resident tensors where they are and gives plain ones, also where the memory grows in between", () => {
    const runtime = freshRuntime("simd");
    const [q, k, v] = qkv(1, 2, 1, 300, 300, 8, 8, 9);
    const attn_mask = randomTensor([300, 300], 10);
    const outputs = ["qk_matmul_output"] as const;
    const want = attention({ qk_matmul_output_mode: 2 }, { Q: q, K: k, V: v, attn_mask }, { outputs });
    const resident = [q, k, v, attn_mask].map(({ data, shape }) => runtime.tensor(shape, data));
    const views = resident.map(({ data, shape }) => ({ data, shape }));
    for (const given of [views, resident]) {
      const [Q, K, V, mask] = given as [TestTensor, TestTensor, TestTensor, TestTensor];
      const before = runtime.info().memoryBytes;
      const got = attention({ qk_matmul_output_mode: 2 }, { Q, K, V, attn_mask: mask }, { runtime, outputs });
      if (given === views) expect(runtime.info().memoryBytes).toBeGreaterThan(before);
      expect(got.Y).not.toHaveProperty("dispose");
      expect(maxError(got.Y.data, want.Y.data)).toBeLessThan(1e-5);
      expect(maxError(got.qk_matmul_output.data, want.qk_matmul_output.data)).toBeLessThan(1e-4);
      expect(got.qk_matmul_output.data.every(Number.isFinite)).toBe(true);
    }
  });

  it("stores no scores unless they are asked for", () => {
    const runtime = createRuntimeSync({ maxMemoryBytes: 4 * 2 ** 20 });
    const [q, k, v] = qkv(1, 2, 2, 1024, 1024, 16, 16, 11); // scores of 8 MiB
    const inputs = { Q: q, K: k, V: v };
    expect(attention({ is_causal: 1 }, inputs, { runtime }).Y.shape).toEqual([1, 2, 1024, 16]);
    expect(() => attention({}, inputs, { runtime, outputs: ["qk_matmul_output"] })).toThrow(/maxMemoryBytes/);
  });

  it.each([
    ["batch", [0, 2, 3, 4], [0, 2, 5, 4], [0, 2, 5, 6]],
    ["queries", [1, 2, 0, 4], [1, 2, 5, 4], [1, 2, 5, 6]],
    ["keys", [1, 2, 3, 4], [1, 2, 0, 4], [1, 2, 0, 6]],
    ["heads", [1, 0, 3, 4], [1, 0, 5, 4], [1, 0, 5, 6]],
    ["value width", [1, 2, 3, 4], [1, 2, 5, 4], [1, 2, 5, 0]],
  ])("takes no %s", (_, shapeQ, shapeK, shapeV) => {
    const inputs = { Q: zeros(...shapeQ), K: zeros(...shapeK), V: zeros(...shapeV) };
    for (const mode of [0, 1, 2, 3]) {
      const options = { outputs: ["present_key", "present_value", "qk_matmul_output"] as const };
      const got = attention({ qk_matmul_output_mode: mode, is_causal: 1 }, inputs, options);
      expectSame(got.Y, zeros(...shapeQ.slice(0, 3), shapeV[3] as number));
      expect(got.present_key.shape).toEqual(shapeK);
      expect(got.present_value.shape).toEqual(shapeV);
      expect(got.qk_matmul_output.shape).toEqual([...shapeQ.slice(0, 3), shapeK[2]]);
    }
  });
});

describe("ONNX attention, masks and versions", () => {
  const [Q, K, V] = qkv(1, 1, 1, 2, 3, 4, 4, 12);
  const run = (attn_mask: unknown, opset = 25) => attention({ opset }, { Q, K, V, attn_mask } as never).Y;

  it("reads a last axis of 1 as short from 24 on, and as broadcast before", () => {
    const one = { data: Float32Array.of(0.5), shape: [1] };
    expectSame(run(one, 23), scaledDotProductAttention(Q, K, V, { attnMask: one }));
    const first = { data: [true, false, false], shape: [3] };
    for (const opset of [24, 25])
      expectSame(run(one, opset), scaledDotProductAttention(Q, K, V, { attnMask: first }));
  });

  it("adds integers, and tells bytes of integers from booleans by the type of the tensor", () => {
    const values = [0, 1, 2];
    const added = scaledDotProductAttention(Q, K, V, {
      attnMask: { data: Float32Array.from(values), shape: [3] },
    });
    const integers = [
      { data: Int32Array.from(values), shape: [3] },
      { data: BigInt64Array.from(values.map(BigInt)), dims: [3] },
      { data: Uint8Array.from(values), shape: [3], type: "uint8" },
      { data: Uint16Array.from(values), shape: [3], type: "uint16" },
      { data: Uint16Array.of(0, 0x3c00, 0x4000), shape: [3], type: "float16" },
      { data: Uint16Array.of(0, 0x3c00, 0x4000), shape: [3] },
    ];
    for (const mask of integers) expectSame(run(mask), added);
    const attends = scaledDotProductAttention(Q, K, V, {
      attnMask: { data: [false, true, true], shape: [3] },
    });
    const booleans = [
      { data: Uint8Array.from(values), shape: [3] },
      { data: Uint8Array.from(values), shape: [3], type: "bool" },
      { data: Uint8ClampedArray.from(values), shape: [3] },
      { data: [false, true, true], shape: [3] },
    ];
    for (const mask of booleans) expectSame(run(mask), attends);
  });

  it("takes the newest version up to the operator set", () => {
    const windowed = attention({ left_window_size: 0 }, { Q, K, V }).Y;
    for (const opset of [25, 26, 27])
      expectSame(attention({ opset, left_window_size: 0 }, { Q, K, V }).Y, windowed);
  });
});

import { describe, expect, it } from "vitest";
import * as core from "../../src/index.ts";
import {
  gemm,
  layerNormalization,
  logSoftmax,
  matMul,
  reduceLogSumExp,
  rmsNormalization,
  rotaryEmbedding,
  softmax,
} from "../../src/onnx/index.ts";
import { onnxOperators } from "../reference/onnx.ts";
import {
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  freshRuntime,
  randomTensor,
  type TestTensor,
  zeros,
} from "../support.ts";

const x = randomTensor([2, 3, 4], 1);

describe("ONNX operators", () => {
  it("are those of the package by other names", () => {
    expectSame(softmax({ axis: 1 }, { input: x }).output, core.softmax(x, { axis: 1 }));
    expectSame(logSoftmax({}, { input: x }).output, core.logSoftmax(x));
    const B = randomTensor([4, 5], 2);
    expectSame(matMul({}, { A: x, B }).Y, core.matmul(x, B));
    const [A, C] = [randomTensor([4, 3], 3), randomTensor([5], 4)];
    const got = gemm({ transA: 1, alpha: 0.5, beta: 2 }, { A, B, C }).Y;
    expectSame(got, core.matmul(A, B, { transposeA: true, alpha: 0.5, beta: 2, c: C }));
  });

  it.each([
    ["all by default", undefined, {}, { axis: [0, 1, 2], keepDims: true }],
    ["all for an empty list", [], { keepdims: 0 }, { axis: [0, 1, 2] }],
    ["those named", [-1, 0], { keepdims: 0 }, { axis: [0, 2] }],
    ["none by noop_with_empty_axes", [], { noop_with_empty_axes: 1 }, { axis: [] }],
    ["those named with noop_with_empty_axes", [1], { noop_with_empty_axes: 1 }, { axis: 1, keepDims: true }],
  ])("ReduceLogSumExp reduces %s", (_, axes, attributes, options) => {
    const want = core.logSumExp(x, options);
    const forms = [
      (list: number[]) => list,
      (list: number[]) => Int32Array.from(list),
      (list: number[]) => BigInt64Array.from(list.map(BigInt)),
    ];
    for (const form of forms) {
      const given = axes ? { axes: { data: form(axes), shape: [axes.length] } } : {};
      expectSame(reduceLogSumExp(attributes, { data: x, ...given }).reduced, want);
    }
  });

  it("Gemm with beta 0 does not read C, and beta without C means nothing", () => {
    const [A, B] = [randomTensor([2, 3], 5), randomTensor([3, 2], 6)];
    const C = { data: Float32Array.of(Number.NaN), shape: [1] };
    const product = core.matmul(A, B);
    expectSame(gemm({ beta: 0 }, { A, B, C }).Y, product);
    expectSame(gemm({ beta: 3 }, { A, B }).Y, product);
  });

  it("run where they are told to", () => {
    const runtime = freshRuntime("simd");
    const before = runtime.info().memoryBytes;
    const large = randomTensor([2 ** 18], 7);
    expectSame(softmax({}, { input: large }, { runtime }).output, runtime.softmax(large));
    expect(runtime.info().memoryBytes).toBeGreaterThan(before);
  });
});

describeVariants("ONNX normalisations and rotary embedding", (runtime) => {
  const plain = (op: string, attributes: Record<string, number>, inputs: Record<string, TestTensor>) => {
    const names = Object.keys(inputs);
    return calibrate(`${op} ${JSON.stringify(attributes)}`, Object.values(inputs), (tensors, round) => {
      const moved = tensors.map((tensor, i) => [names[i], { ...tensor, isBoolean: false }]);
      return Object.values(onnxOperators[op]!(attributes, Object.fromEntries(moved), round, false));
    });
  };

  it.each([
    ["those of the normalised axes", [3, 4], [3, 4]],
    ["ones less", [4], [1, 4]],
    ["single numbers", [], [1]],
    ["one for each row", [2, 1, 1], [2, 1, 1]],
    ["one for each row and one for each column", [2, 1, 1], [4]],
    ["one for each column and one for each row", [3, 4], [2, 1, 4]],
    ["one for each element", [2, 3, 4], [2, 3, 1]],
  ])("take scales and biases that broadcast: %s", (_, scaleShape, biasShape) => {
    const [Scale, B] = [randomTensor(scaleShape, 11), randomTensor(biasShape, 12)];
    const outputs = ["Mean", "InvStdDev"] as const;
    const attributes = { axis: 1, epsilon: 0.5 };
    const layer = plain("LayerNormalization", attributes, { X: x, Scale, B });
    const got = layerNormalization(attributes, { X: x, Scale, B }, { runtime, outputs });
    [got.Y, got.Mean, got.InvStdDev].forEach((output, i) => {
      expectClose(output, layer.want[i]!, layer.tolerances[i]!);
    });
    const rms = plain("RMSNormalization", attributes, { X: x, scale: Scale });
    const { Y } = rmsNormalization(attributes, { X: x, scale: Scale }, { runtime });
    expectClose(Y, rms.want[0]!, rms.tolerances[0]!);
  });

  it("have the defaults of ONNX: the last axis, 1e-5, no bias, no statistics", () => {
    const scale = randomTensor([4], 13);
    const eps = Math.fround(1e-5);
    const got = layerNormalization({}, { X: x, Scale: scale }, { runtime });
    expectSame(got.Y, runtime.layerNorm(x, { weight: scale, eps }));
    expect(Object.keys(got)).toEqual(["Y"]);
    expectSame(
      rmsNormalization({}, { X: x, scale }, { runtime }).Y,
      runtime.rmsNorm(x, { weight: scale, eps }),
    );
  });

  it("turn rank 3 as rank 4, for ids in any form", () => {
    const [heads, width, positions] = [2, 6, 9];
    const X = randomTensor([2, 3, heads * width], 14);
    const [cos_cache, sin_cache] = [randomTensor([positions, 2], 15), randomTensor([positions, 2], 16)];
    const ids = [0, 8, 3, 3, 1, 7];
    const attributes = { num_heads: heads, rotary_embedding_dim: 4, interleaved: 1 };
    const want = runtime.rotaryEmbedding(
      { data: X.data, shape: [2, 3, heads, width] },
      cos_cache,
      sin_cache,
      {
        layout: "blhd",
        rotaryDim: 4,
        interleaved: true,
        positionIds: Int32Array.from(ids),
      },
    );
    for (const data of [ids, Int32Array.from(ids), BigInt64Array.from(ids.map(BigInt))]) {
      const position_ids = { data, shape: [2, 3] };
      const { Y } = rotaryEmbedding(attributes, { X, cos_cache, sin_cache, position_ids }, { runtime });
      expectSame(Y, { data: want.data, shape: X.shape });
    }
    const rank4 = { X: { data: X.data, shape: [2, heads, 3, width] } };
    const caches = { cos_cache: randomTensor([2, 3, 3], 17), sin_cache: randomTensor([2, 3, 3], 18) };
    const all = rotaryEmbedding({}, { ...rank4, ...caches }, { runtime }).Y;
    expectSame(all, runtime.rotaryEmbedding(rank4.X, caches.cos_cache, caches.sin_cache));
  });

  it("take empty tensors", () => {
    const [X, Scale] = [zeros(0, 3, 4), zeros(4)];
    expectSame(layerNormalization({}, { X, Scale }, { runtime }).Y, X);
    expectSame(rmsNormalization({}, { X, scale: Scale }, { runtime }).Y, X);
    const cache = zeros(0, 3, 2);
    const rotated = rotaryEmbedding(
      {},
      { X: zeros(0, 2, 3, 4), cos_cache: cache, sin_cache: cache },
      { runtime },
    );
    expect(rotated.Y.shape).toEqual([0, 2, 3, 4]);
    expectSame(softmax({}, { input: X }, { runtime }).output, X);
    expectSame(matMul({}, { A: zeros(2, 0), B: zeros(0, 3) }, { runtime }).Y, zeros(2, 3));
    expectSame(gemm({}, { A: zeros(2, 0), B: zeros(0, 3), C: zeros(3) }, { runtime }).Y, zeros(2, 3));
  });
});

import { describe, expect, it } from "vitest";
import * as core from "../../src/index.ts";
import { gemm, logSoftmax, matMul, reduceLogSumExp, softmax } from "../../src/onnx/index.ts";
import { expectSame, freshRuntime, randomTensor } from "../support.ts";

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

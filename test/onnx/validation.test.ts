import { createRuntimeSync } from "../../src/index.ts";
import * as onnx from "../../src/onnx/index.ts";
import { itRefuses, type WrongCall, zeros } from "../support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
const x = zeros(2, 4, 3, 8);
const normalize = (attributes: object, more: object = {}, options: object = {}) =>
  onnx.layerNormalization(attributes, { X: zeros(3, 4), Scale: zeros(4), ...more }, { runtime, ...options });
const table = zeros(9, 4);
const position_ids = { data: Int32Array.of(0, 1, 2, 0, 1, 2), shape: [2, 3] };
const turn = (attributes: object, more: object = {}) =>
  onnx.rotaryEmbedding(
    attributes,
    { X: x, cos_cache: table, sin_cache: table, position_ids, ...more },
    { runtime },
  );

itRefuses(runtime, [
  [
    "softmax before 13",
    () => onnx.softmax({ opset: 12 }, { input: x }),
    RangeError,
    /softmax: opset of Softmax must be an integer from 13 to 27, got 12/,
  ],
  [
    "an axis outside the rank",
    () => onnx.softmax({ axis: 4 }, { input: x }),
    RangeError,
    /softmax: axis of Softmax-13 must be an integer from -4 to 3, got 4/,
  ],
  [
    "an axis of logSoftmax",
    () => onnx.logSoftmax({ axis: -5 }, { input: x }),
    RangeError,
    /logSoftmax: axis of LogSoftmax-13/,
  ],
  [
    "axes outside the rank",
    () => onnx.reduceLogSumExp({}, { data: x, axes: { data: [4], shape: [1] } }),
    RangeError,
    /reduceLogSumExp: axes must be from -4 to 3 for rank 4, got 4/,
  ],
  [
    "an axis twice",
    () => onnx.reduceLogSumExp({}, { data: x, axes: { data: [3, -1], shape: [2] } }),
    RangeError,
    /axes must name each axis once, got \[3, -1\]/,
  ],
  [
    "axes as an attribute",
    () => onnx.reduceLogSumExp({ opset: 13 }, { data: x }),
    RangeError,
    /opset of ReduceLogSumExp must be an integer from 18 to 27/,
  ],
  [
    "inner lengths of MatMul",
    () => onnx.matMul({}, { A: zeros(2, 3), B: zeros(2, 3) }),
    RangeError,
    /inner lengths must be equal, got 3 .* and 2/,
  ],
  [
    "an attribute of MatMul",
    () => onnx.matMul({ alpha: 1 } as never, { A: zeros(2, 3), B: zeros(3, 2) }),
    TypeError,
    /matMul: unknown attribute "alpha"; MatMul-1 has opset/,
  ],
  [
    "Gemm of rank 3",
    () => onnx.gemm({}, { A: zeros(1, 2, 3), B: zeros(3, 2) }),
    RangeError,
    /gemm: A must have rank 2, got \[1, 2, 3\]/,
  ],
  [
    "inner lengths of Gemm",
    () => onnx.gemm({ transB: 1 }, { A: zeros(2, 3), B: zeros(3, 2) }),
    RangeError,
    /gemm: inner lengths of A and B must be equal, got 3 and 2/,
  ],
  [
    "C of Gemm",
    () => onnx.gemm({}, { A: zeros(2, 3), B: zeros(3, 4), C: zeros(2) }),
    RangeError,
    /gemm: C must broadcast to \[2, 4\], got \[2\]/,
  ],
  [
    "transA of 2",
    () => onnx.gemm({ transA: 2 }, { A: zeros(2, 3), B: zeros(3, 4) }),
    RangeError,
    /transA of Gemm-11 must be an integer from 0 to 1, got 2/,
  ],
  [
    "outputs of an operator with one",
    () => onnx.matMul({}, { A: x, B: x }, { outputs: ["Z"] } as never),
    TypeError,
    /unknown output "Z"; there are Y/,
  ],
  [
    "an axis of LayerNormalization",
    () => normalize({ axis: 2 }),
    RangeError,
    /layerNormalization: axis of LayerNormalization-17 must be an integer from -2 to 1, got 2/,
  ],
  ["a negative epsilon", () => normalize({ epsilon: -1 }), RangeError, /epsilon must be 0 or more, got -1/],
  [
    "statistics in float64",
    () => normalize({ stash_type: 11 }),
    RangeError,
    /stash_type must be 1, 10 or 16 .*float64 is not computed, got 11/,
  ],
  [
    "a Scale that does not fit",
    () => normalize({}, { Scale: zeros(3) }),
    RangeError,
    /Scale must broadcast to X \[3, 4\], got \[3\]/,
  ],
  [
    "a bias of more axes",
    () => normalize({}, { B: zeros(1, 3, 4) }),
    RangeError,
    /B must broadcast to X \[3, 4\], got \[1, 3, 4\]/,
  ],
  [
    "LayerNormalization without Scale",
    () => normalize({}, { Scale: undefined }),
    TypeError,
    /input Scale is required by LayerNormalization-17/,
  ],
  [
    "an output of LayerNormalization",
    () => normalize({}, {}, { outputs: ["InvStdVar"] }),
    TypeError,
    /unknown output "InvStdVar"; there are Y, Mean, InvStdDev/,
  ],
  [
    "scale of RMSNormalization",
    () => onnx.rmsNormalization({}, { X: zeros(3, 4), scale: zeros(2) }),
    RangeError,
    /rmsNormalization: scale must broadcast to X/,
  ],
  [
    "RMSNormalization before 23",
    () => onnx.rmsNormalization({ opset: 22 }, { X: zeros(3, 4), scale: zeros(4) }),
    RangeError,
    /opset .* must be an integer from 23 to 27/,
  ],
  [
    "rotary of rank 3 without heads",
    () => turn({}, { X: zeros(2, 3, 16) }),
    TypeError,
    /rotaryEmbedding: num_heads is required with X of rank 3, got X \[2, 3, 16\]/,
  ],
  [
    "rotary of rank 2",
    () => turn({}, { X: zeros(3, 8) }),
    RangeError,
    /X must have rank 4 or 3, got \[3, 8\]/,
  ],
  [
    "rotary of other heads",
    () => turn({ num_heads: 3 }),
    RangeError,
    /num_heads must be the heads of X, got 3 and \[2, 4, 3, 8\]/,
  ],
  [
    "rotary of heads that do not divide",
    () => turn({ num_heads: 3 }, { X: zeros(2, 3, 16) }),
    RangeError,
    /last axis of X must be a multiple of num_heads, got \[2, 3, 16\] and 3/,
  ],
  [
    "an odd part",
    () => turn({ rotary_embedding_dim: 3 }),
    RangeError,
    /must be even and at most the head size 8, got 3/,
  ],
  [
    "a part that is too large",
    () => turn({ rotary_embedding_dim: 10 }),
    RangeError,
    /must be even and at most the head size 8, got 10/,
  ],
  [
    "a table without ids",
    () => turn({}, { position_ids: undefined }),
    RangeError,
    /cos_cache must have shape \[2, 3, 4\] without position_ids, got \[9, 4\]/,
  ],
  [
    "tables of two sizes",
    () => turn({}, { sin_cache: zeros(8, 4) }),
    RangeError,
    /sin_cache must have the shape of cos_cache \[9, 4\], got \[8, 4\]/,
  ],
  [
    "a table that is too wide",
    () => turn({}, { sin_cache: zeros(9, 8) }),
    RangeError,
    /sin_cache must have shape \[positions, 4\] with position_ids, got \[9, 8\]/,
  ],
  [
    "ids of another shape",
    () => turn({}, { position_ids: { data: [0, 1, 2], shape: [3] } }),
    RangeError,
    /position_ids must have shape \[2, 3\], got \[3\]/,
  ],
  [
    "ids outside the table",
    () => turn({}, { position_ids: { data: [0, 1, 2, 3, 9, 4], shape: [2, 3] } }),
    RangeError,
    /position_ids must be from 0 to 8, the rows of cos_cache, got 9 at 4/,
  ],
] satisfies WrongCall[]);

import { createRuntimeSync } from "../../src/index.ts";
import * as onnx from "../../src/onnx/index.ts";
import { itRefuses, type WrongCall, zeros } from "../support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
const x = zeros(2, 4, 3, 8);
const packed = zeros(2, 3, 32);
const inputs = { Q: x, K: x, V: x };
const threes = { Q: packed, K: packed, V: packed };
const heads = { q_num_heads: 4, kv_num_heads: 4 };

const attend = (attributes: object, more: object = {}, options: object = {}) =>
  onnx.attention(attributes, { ...inputs, ...more } as never, { runtime, ...options });
const attend3 = (attributes: object, more: object = {}) =>
  onnx.attention(attributes, { ...threes, ...more } as never, { runtime });

itRefuses(runtime, [
  [
    "attributes that are none",
    () => attend(null as never),
    TypeError,
    /attention: attributes must be an object, got null/,
  ],
  [
    "an unknown attribute",
    () => attend({ is_casual: 1 }),
    TypeError,
    /unknown attribute "is_casual"; Attention-25 has opset, is_causal, /,
  ],
  [
    "an unknown input",
    () => attend({}, { bias: x }),
    TypeError,
    /unknown input "bias"; Attention-25 has Q, K, V, /,
  ],
  ["an unknown option", () => attend({}, {}, { out: x }), TypeError, /unknown option "out"/],
  [
    "an unknown output",
    () => attend({}, {}, { outputs: ["Z"] }),
    TypeError,
    /unknown output "Z"; there are Y, present_key, present_value, qk_matmul_output/,
  ],
  [
    "outputs that are none",
    () => attend({}, {}, { outputs: "Y" }),
    TypeError,
    /outputs must be an array of .*got "Y"/,
  ],
  ["a runtime that is none", () => attend({}, {}, { runtime: {} }), TypeError, /runtime must be a Runtime/],
  ["a missing input", () => attend({}, { V: undefined }), TypeError, /input V is required by Attention-25/],
  [
    "an opset before the operator",
    () => attend({ opset: 22 }),
    RangeError,
    /opset of Attention must be an integer from 23 to 27, got 22/,
  ],
  [
    "an opset not known",
    () => attend({ opset: 28 }),
    RangeError,
    /opset .* must be an integer from 23 to 27, got 28/,
  ],
  [
    "an opset that is none",
    () => attend({ opset: "25" }),
    TypeError,
    /opset of Attention must be an integer .* got "25"/,
  ],
  [
    "windows before 25",
    () => attend({ opset: 24, left_window_size: 1 }),
    TypeError,
    /unknown attribute "left_window_size"; Attention-24 has/,
  ],
  [
    "nonpad_kv_seqlen before 24",
    () => attend({ opset: 23 }, { nonpad_kv_seqlen: { data: [1, 1], shape: [2] } }),
    TypeError,
    /unknown input "nonpad_kv_seqlen"; Attention-23 has/,
  ],
  [
    "a window below -1",
    () => attend({ right_window_size: -2 }),
    RangeError,
    /right_window_size of Attention-25 must be an integer of -1 or more, got -2/,
  ],
  [
    "is_causal of 2",
    () => attend({ is_causal: 2 }),
    RangeError,
    /is_causal of Attention-25 must be an integer from 0 to 1, got 2/,
  ],
  [
    "is_causal of true",
    () => attend({ is_causal: true }),
    TypeError,
    /is_causal of Attention-25 must be an integer .* got true/,
  ],
  [
    "a mode of 4",
    () => attend({ qk_matmul_output_mode: 4 }),
    RangeError,
    /qk_matmul_output_mode .* from 0 to 3, got 4/,
  ],
  [
    "a scale of NaN",
    () => attend({ scale: Number.NaN }),
    RangeError,
    /scale of Attention-25 must be a finite float32 number, got NaN/,
  ],
  [
    "a scale that is none",
    () => attend({ scale: "1" }),
    TypeError,
    /scale of Attention-25 must be a finite float32/,
  ],
  [
    "a negative softcap",
    () => attend({ softcap: -1 }),
    RangeError,
    /softcap must be positive, or 0 for none, got -1/,
  ],
  [
    "float64 softmax",
    () => attend({ softmax_precision: 11 }),
    RangeError,
    /softmax_precision must be 1, 10 or 16 .*float64 is not computed, got 11/,
  ],
  [
    "heads missing at rank 3",
    () => attend3({ q_num_heads: 4 }),
    TypeError,
    /kv_num_heads is required with inputs of rank 3, got K \[2, 3, 32\]/,
  ],
  [
    "heads that do not divide",
    () => attend3({ ...heads, q_num_heads: 5 }),
    RangeError,
    /the last axis of Q must be a multiple of q_num_heads, got \[2, 3, 32\] and 5/,
  ],
  [
    "no heads",
    () => attend3({ ...heads, q_num_heads: 0 }),
    RangeError,
    /q_num_heads of Attention-25 must be an integer of 1 or more, got 0/,
  ],
  [
    "heads at rank 4",
    () => attend(heads),
    TypeError,
    /q_num_heads is for inputs of rank 3 in Attention-25, got 4 and Q \[2, 4, 3, 8\]/,
  ],
  [
    "other heads at rank 4",
    () => attend({ opset: 24, kv_num_heads: 2 }),
    RangeError,
    /kv_num_heads must be the heads of K, got 2 and \[2, 4, 3, 8\]/,
  ],
  [
    "mixed ranks",
    () => attend(heads, { Q: packed }),
    RangeError,
    /Q, K and V must all have rank 4 or all rank 3/,
  ],
  [
    "rank 2",
    () => attend({}, { Q: zeros(3, 8), K: zeros(3, 8), V: zeros(3, 8) }),
    RangeError,
    /all have rank 4 or all rank 3/,
  ],
  [
    "another batch",
    () => attend({}, { K: zeros(1, 4, 3, 8) }),
    RangeError,
    /batch of K must be that of Q, got 1 and 2/,
  ],
  [
    "another batch of V",
    () => attend({}, { V: zeros(1, 4, 3, 8) }),
    RangeError,
    /batch of V must be that of Q, got 1 and 2/,
  ],
  [
    "another head size",
    () => attend({}, { K: zeros(2, 4, 3, 7) }),
    RangeError,
    /head size of K must be that of Q, got 7 and 8/,
  ],
  [
    "no head size",
    () => attend({}, { Q: zeros(2, 4, 3, 0), K: zeros(2, 4, 3, 0) }),
    RangeError,
    /head size of Q must be at least 1/,
  ],
  [
    "other heads of V",
    () => attend({}, { V: zeros(2, 2, 3, 8) }),
    RangeError,
    /heads of V must be those of K, got 2 and 4/,
  ],
  [
    "another length of V",
    () => attend({}, { V: zeros(2, 4, 2, 8) }),
    RangeError,
    /length of V must be that of K, got 2 and 3/,
  ],
  [
    "heads that make no groups",
    () => attend({}, { K: zeros(2, 3, 3, 8), V: zeros(2, 3, 3, 8) }),
    RangeError,
    /heads of Q must be a multiple of those of K, got 4 and 3/,
  ],
  [
    "a past of rank 3",
    () => attend3(heads, { past_key: zeros(2, 5, 32), past_value: zeros(2, 4, 5, 8) }),
    RangeError,
    /past_key must have shape/,
  ],
] satisfies WrongCall[]);

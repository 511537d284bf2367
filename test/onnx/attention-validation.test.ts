import { createRuntimeSync } from "../../src/index.ts";
import * as onnx from "../../src/onnx/index.ts";
import { itRefuses, type WrongCall, zeros } from "../support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
const x = zeros(2, 4, 3, 8);
const packed = zeros(2, 3, 32);
const inputs = { Q: x, K: x, V: x };
const threes = { Q: packed, K: packed, V: packed };
const heads = { q_num_heads: 4, kv_num_heads: 4 };
const lengths = (...data: unknown[]) => ({ data, shape: [data.length] });
const past = { past_key: zeros(2, 4, 5, 8), past_value: zeros(2, 4, 5, 8) };

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
    () => attend({ opset: 23 }, { nonpad_kv_seqlen: lengths(1, 1) }),
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
    "half a past",
    () => attend({}, { past_key: past.past_key }),
    TypeError,
    /past_key and past_value go together, got past_key alone/,
  ],
  ["the other half", () => attend({}, { past_value: past.past_value }), TypeError, /got past_value alone/],
  [
    "a past of another width",
    () => attend({}, { ...past, past_key: zeros(2, 4, 5, 7) }),
    RangeError,
    /past_key must have shape \[2, 4, length of the past, 8\], got \[2, 4, 5, 7\]/,
  ],
  [
    "a past of rank 3",
    () => attend3(heads, { ...past, past_key: zeros(2, 5, 32) }),
    RangeError,
    /past_key must have shape/,
  ],
  [
    "pasts of two lengths",
    () => attend({}, { ...past, past_value: zeros(2, 4, 4, 8) }),
    RangeError,
    /length of past_value must be that of past_key, got 4 and 5/,
  ],
  [
    "both caches",
    () => attend({}, { ...past, nonpad_kv_seqlen: lengths(1, 1) }),
    TypeError,
    /nonpad_kv_seqlen is for a cache outside/,
  ],
  [
    "a cache outside and present",
    () => attend({}, { nonpad_kv_seqlen: lengths(1, 1) }, { outputs: ["present_key"] }),
    TypeError,
    /nonpad_kv_seqlen is for a cache outside/,
  ],
  [
    "too few lengths",
    () => attend({}, { nonpad_kv_seqlen: lengths(1) }),
    RangeError,
    /nonpad_kv_seqlen must have shape \[2\], one for each batch entry, got \[1\]/,
  ],
  [
    "a length too large",
    () => attend({}, { nonpad_kv_seqlen: lengths(1, 4n) }),
    RangeError,
    /nonpad_kv_seqlen must be from 0 to the 3 keys, got 4 at 1/,
  ],
  ["a negative length", () => attend({}, { nonpad_kv_seqlen: lengths(-1, 1) }), RangeError, /got -1 at 0/],
  [
    "half a key",
    () => attend({}, { nonpad_kv_seqlen: lengths(1, 0.5) }),
    RangeError,
    /nonpad_kv_seqlen.data must hold integers, got 0.5 at 1/,
  ],
  [
    "lengths in floats",
    () => attend({}, { nonpad_kv_seqlen: zeros(2) }),
    TypeError,
    /nonpad_kv_seqlen.data must be a BigInt64Array, an Int32Array or an array/,
  ],
  [
    "a mask that does not fit",
    () => attend({}, { attn_mask: zeros(2, 3) }),
    RangeError,
    /attn_mask of Attention-25 must broadcast to .* = \[2, 4, 3, 3\], or be shorter in the last axis, got \[2, 3\]/,
  ],
  [
    "a mask that is too long",
    () => attend({}, { attn_mask: zeros(4) }),
    RangeError,
    /attn_mask .* got \[4\]/,
  ],
  [
    "a short mask before 24",
    () => attend({ opset: 23 }, { attn_mask: zeros(2) }),
    RangeError,
    /attn_mask of Attention-23 must broadcast to \[batch, heads, queries, keys\] = \[2, 4, 3, 3\], got \[2\]/,
  ],
  [
    "a mask of rank 5",
    () => attend({}, { attn_mask: zeros(1, 1, 1, 1, 3) }),
    RangeError,
    /attn_mask .* got \[1, 1, 1, 1, 3\]/,
  ],
  ["a mask of rank 0", () => attend({}, { attn_mask: zeros() }), RangeError, /attn_mask .* got \[\]/],
  [
    "a mask shorter than what counts",
    () => attend({}, { attn_mask: zeros(2), nonpad_kv_seqlen: lengths(1, 3) }),
    RangeError,
    /the last axis of attn_mask must reach the largest of nonpad_kv_seqlen, got 2 and 3/,
  ],
  [
    "a mask of numbers",
    () => attend({}, { attn_mask: { data: [1, 0, 1], shape: [3] } }),
    TypeError,
    /attn_mask.data as an array must hold true and false only, got 1 at 0/,
  ],
  [
    "a mask of float64",
    () => attend({}, { attn_mask: { data: new Float64Array(3), shape: [3] } }),
    TypeError,
    /attn_mask.data must be .* got a Float64Array; float64 is not computed/,
  ],
  [
    "a mask that is not full",
    () => attend({}, { attn_mask: { data: new Uint8Array(2), shape: [3] } }),
    RangeError,
    /attn_mask.data must hold 3 elements for shape \[3\], got 2/,
  ],
  [
    "float64",
    () => attend({}, { Q: { data: new Float64Array(192), shape: x.shape } }),
    TypeError,
    /Q.data must be a Float32Array, or float16 .* got a Float64Array; float64/,
  ],
  [
    "uint16 that is no float16",
    () => attend({}, { Q: { data: new Uint16Array(192), shape: x.shape, type: "uint16" } }),
    TypeError,
    /Q.data must be .* got an Uint16Array of type "uint16"/,
  ],
  [
    "a tensor without a shape",
    () => attend({}, { Q: { data: x.data } }),
    TypeError,
    /Q must be a tensor \{ data, shape \}/,
  ],
  [
    "data that do not fill the shape",
    () => attend({}, { K: { data: x.data, shape: [2, 4, 3, 7] } }),
    RangeError,
    /K.data must hold 168 elements for shape \[2, 4, 3, 7\], got 192/,
  ],
] satisfies WrongCall[]);

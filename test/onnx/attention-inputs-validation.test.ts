import { createRuntimeSync } from "../../src/index.ts";
import * as onnx from "../../src/onnx/index.ts";
import { itRefuses, type WrongCall, zeros } from "../support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
const x = zeros(2, 4, 3, 8);
const lengths = (...data: unknown[]) => ({ data, shape: [data.length] });
const past = { past_key: zeros(2, 4, 5, 8), past_value: zeros(2, 4, 5, 8) };

const attend = (attributes: object, more: object, options: object = {}) =>
  onnx.attention(attributes, { Q: x, K: x, V: x, ...more } as never, { runtime, ...options });

itRefuses(runtime, [
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
    /Q.data must be .* got a Uint16Array of type "uint16"/,
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

import { describe, expect, it } from "vitest";
import { type AttentionOptions, createRuntimeSync } from "../src/index.ts";
import { itRefuses, type WrongCall, zeros } from "./support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
const attend = (q: unknown, k: unknown, v: unknown, options?: unknown) =>
  runtime.scaledDotProductAttention(q as never, k as never, v as never, options as AttentionOptions);

const x = zeros(2, 3, 4);
const cases: WrongCall[] = [
  [
    "headDim of key",
    () => attend(x, zeros(2, 3, 5), x),
    RangeError,
    /headDim of key must be that of query, got 5 and 4: key \[2, 3, 5\]/,
  ],
  [
    "length of value",
    () => attend(x, x, zeros(2, 2, 4)),
    RangeError,
    /length of value must be that of key, got 2 and 3/,
  ],
  [
    "heads of value",
    () => attend(zeros(4, 3, 4), x, zeros(1, 3, 4)),
    RangeError,
    /heads of value must be those of key, got 1 and 2/,
  ],
  [
    "grouped heads",
    () => attend(zeros(3, 3, 4), x, x),
    RangeError,
    /heads of query must be a multiple of those of key, got 3 and 2/,
  ],
  ["ranks", () => attend(x, zeros(1, 2, 3, 4), x), RangeError, /query, key and value must have one rank/],
  [
    "batch axes",
    () => attend(zeros(2, 1, 3, 4), zeros(3, 1, 3, 4), zeros(3, 1, 3, 4)),
    RangeError,
    /batch axes of key must all be 1 or all be \[2\]/,
  ],
  [
    "headDim 0",
    () => attend(zeros(1, 0), zeros(1, 0), zeros(1, 0)),
    RangeError,
    /headDim of query must be at least 1/,
  ],
  ["rank 1", () => attend(zeros(4), zeros(4), zeros(4)), RangeError, /query must have shape .* got \[4\]/],
  [
    "blhd rank 2",
    () => attend(zeros(3, 4), zeros(3, 4), zeros(3, 4), { layout: "blhd" }),
    RangeError,
    /\[\.\.\., length, heads, headDim\], got \[3, 4\]/,
  ],
  [
    "layout",
    () => attend(x, x, x, { layout: "lbhd" }),
    TypeError,
    /layout must be "bhld" or "blhd", got "lbhd"/,
  ],
  [
    "data length",
    () => attend({ data: new Float32Array(5), shape: [2, 3] }, x, x),
    RangeError,
    /query\.data must hold 6 elements for shape \[2, 3\], got 5/,
  ],
  [
    "float64",
    () => attend({ data: new Float64Array(6), shape: [2, 3] }, x, x),
    TypeError,
    /query\.data must be a Float32Array, got a Float64Array; float64 is not computed/,
  ],
  [
    "array data",
    () => attend({ data: [1, 2], shape: [1, 2] }, x, x),
    TypeError,
    /query\.data must be a Float32Array, got \[1, 2\]/,
  ],
  [
    "no shape",
    () => attend({ data: new Float32Array(1) }, x, x),
    TypeError,
    /query must be a tensor \{ data, shape \}/,
  ],
  [
    "no tensor",
    () => attend(undefined, x, x),
    TypeError,
    /query must be a tensor \{ data, shape \}, got undefined/,
  ],
  [
    "negative axis length",
    () => attend({ data: new Float32Array(0), shape: [-1, 4] }, x, x),
    RangeError,
    /query\.shape must hold non-negative integers, got -1 at axis 0/,
  ],
  [
    "fractional axis length",
    () => attend({ data: new Float32Array(0), shape: [1.5, 4] }, x, x),
    RangeError,
    /got 1\.5 at axis 0/,
  ],
  [
    "longest axis",
    () => attend({ data: new Float32Array(0), shape: [2 ** 29, 4] }, x, x),
    RangeError,
    /more than the longest axis/,
  ],
  [
    "NaN scale",
    () => attend(x, x, x, { scale: Number.NaN }),
    RangeError,
    /scale must be a finite float32 number, got NaN/,
  ],
  [
    "string scale",
    () => attend(x, x, x, { scale: "1" }),
    TypeError,
    /scale must be a finite float32 number, got "1"/,
  ],
  ["isCausal", () => attend(x, x, x, { isCausal: 1 }), TypeError, /isCausal must be true or false, got 1/],
  [
    "alignment",
    () => attend(x, x, x, { causalAlignment: "right" }),
    TypeError,
    /causalAlignment must be "topLeft" or "bottomRight", got "right"/,
  ],
  [
    "offset and alignment",
    () => attend(x, x, x, { causalAlignment: "topLeft", queryOffset: 1 }),
    TypeError,
    /queryOffset and causalAlignment both set the position/,
  ],
  [
    "fractional offset",
    () => attend(x, x, x, { queryOffset: 0.5 }),
    RangeError,
    /queryOffset must be an integer, got 0\.5/,
  ],
  [
    "offset array",
    () => attend(x, x, x, { queryOffset: [1] }),
    TypeError,
    /queryOffset must be an integer or an Int32Array, got \[1\]/,
  ],
  [
    "offset length",
    () => attend(x, x, x, { queryOffset: Int32Array.of(1, 2) }),
    RangeError,
    /queryOffset must hold one entry for each of 1 batches, got 2/,
  ],
  ["kvLengths type", () => attend(x, x, x, { kvLengths: [3] }), TypeError, /kvLengths must be an Int32Array/],
  [
    "kvLengths range",
    () => attend(x, x, x, { kvLengths: Int32Array.of(4) }),
    RangeError,
    /kvLengths must be from 0 to the key length 3, got 4 at batch 0/,
  ],
  [
    "scale beyond float32",
    () => attend(x, x, x, { scale: 1e300 }),
    RangeError,
    /scale must be a finite float32 number, got 1e\+300/,
  ],
  [
    "offset beyond windows",
    () => attend(x, x, x, { queryOffset: 2 ** 29, windowSize: [1, 1] }),
    RangeError,
    /queryOffset must be from -268435456 to 268435456 with windowSize or alibiSlopes, got 536870912/,
  ],
  [
    "softcap beyond float32",
    () => attend(x, x, x, { softcap: 1e-46 }),
    RangeError,
    /softcap must be a positive float32 number, or 0 for none, got 1e-46/,
  ],
  [
    "alibiSlopes values",
    () => attend(x, x, x, { alibiSlopes: { data: Float32Array.of(1, NaN), shape: [2] } }),
    RangeError,
    /alibiSlopes must be finite, got NaN at 1/,
  ],
  [
    "windowSize type",
    () => attend(x, x, x, { windowSize: 3 }),
    TypeError,
    /windowSize must be \[left, right\], got 3/,
  ],
  [
    "windowSize side",
    () => attend(x, x, x, { windowSize: [-2, 0] }),
    RangeError,
    /each side of windowSize must be an integer of 0 or more, or -1 or Infinity for no bound, got -2/,
  ],
  [
    "softcap",
    () => attend(x, x, x, { softcap: -1 }),
    RangeError,
    /softcap must be a positive float32 number, or 0 for none, got -1/,
  ],
  [
    "alibiSlopes",
    () => attend(x, x, x, { alibiSlopes: zeros(3) }),
    RangeError,
    /alibiSlopes must have shape \[2\] or \[1, 2\], heads of query, got \[3\]/,
  ],
  [
    "sinks",
    () => attend(x, x, x, { sinks: zeros(1, 2) }),
    RangeError,
    /sinks must have shape \[2\], heads of query, got \[1, 2\]/,
  ],
  [
    "mask type",
    () => attend(x, x, x, { attnMask: { data: new Int32Array(9), shape: [3, 3] } }),
    TypeError,
    /attnMask\.data must be a Uint8Array, Uint8ClampedArray or array of booleans .* got an Int32Array/,
  ],
  [
    "mask values",
    () => attend(x, x, x, { attnMask: { data: [true, 1], shape: [2] } }),
    TypeError,
    /must hold true and false only, got 1 at 1/,
  ],
  [
    "mask shape",
    () => attend(x, x, x, { attnMask: { data: new Uint8Array(8), shape: [2, 4] } }),
    RangeError,
    /attnMask must broadcast to .* \[2, 3, 3\], got \[2, 4\]/,
  ],
  [
    "mask length",
    () => attend(x, x, x, { attnMask: { data: new Uint8Array(8), shape: [3, 3] } }),
    RangeError,
    /attnMask\.data must hold 9 elements .* got 8/,
  ],
  [
    "out shape",
    () => attend(x, x, x, { out: zeros(2, 3, 5) }),
    RangeError,
    /out\.shape must be \[2, 3, 4\], got \[2, 3, 5\]/,
  ],
  ["options type", () => attend(x, x, x, 3), TypeError, /options must be an object, got 3/],
];

describe("validation of attention", () => {
  itRefuses(runtime, cases);

  it.each(["dropout_p", "enableGqa", "attn_mask", "is_causal"])(
    "rejects the unknown option %s by name",
    (name) => {
      expect(() => attend(x, x, x, { [name]: 1 })).toThrow(
        `scaledDotProductAttention: unknown option "${name}"`,
      );
    },
  );
});

import { describe, expect, it } from "vitest";
import * as wasm from "../src/index.ts";
import { type AttentionOptions, createRuntime, createRuntimeSync } from "../src/index.ts";
import { wasmBytes } from "./support.ts";

const zeros = (...shape: number[]) => ({ data: new Float32Array(shape.reduce((a, b) => a * b, 1)), shape });
const runtime = createRuntimeSync({ variant: "simd" });
const attend = (q: unknown, k: unknown, v: unknown, options?: unknown) =>
  runtime.scaledDotProductAttention(q as never, k as never, v as never, options as AttentionOptions);

/** Each line: what is wrong, the call, and what the message must say: function, argument, rule and both values. */
const x = zeros(2, 3, 4);
const cases: [name: string, call: () => unknown, type: typeof Error, message: RegExp][] = [
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
    /queryOffset must be an Int32Array, got \[1\]/,
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
    "axis of a scalar",
    () => runtime.softmax(zeros()),
    RangeError,
    /softmax: x must have rank 1 or more for an axis, got a scalar/,
  ],
  [
    "memory limit below an empty runtime",
    () => createRuntimeSync({ maxMemoryBytes: 1000 }),
    RangeError,
    /maxMemoryBytes must be at least the 65536 bytes of an empty runtime, got 1000/,
  ],
  [
    "axis null",
    () => runtime.logSumExp(zeros(2), { axis: null as never }),
    TypeError,
    /logSumExp: axis must be an integer, got null/,
  ],
  [
    "axis object",
    () => runtime.softmax(zeros(2), { axis: {} as never }),
    TypeError,
    /softmax: axis must be an integer, got an object/,
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
    /windowSize must hold two integers of 0 or more, or -1 or Infinity for no bound, got -2/,
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
    /attnMask\.data must be a Uint8Array, Uint8ClampedArray or array of booleans .* got a Int32Array/,
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
  [
    "inner lengths",
    () => runtime.matmul(zeros(2, 3), zeros(4, 5)),
    RangeError,
    /matmul: inner lengths must be equal, got 3 of a \[2, 3\] and 4 of b \[4, 5\]/,
  ],
  [
    "matmul batch",
    () => runtime.matmul(zeros(2, 1, 1), zeros(3, 1, 1)),
    RangeError,
    /batch axes must broadcast, got \[2\] of a and \[3\] of b/,
  ],
  ["matmul scalar", () => runtime.matmul(zeros(), zeros(1)), RangeError, /a must have rank 1 or more/],
  [
    "transposed vector",
    () => runtime.matmul(zeros(2), zeros(2, 1), { transposeA: true }),
    RangeError,
    /transposeA needs a of rank 2 or more, got shape \[2\]/,
  ],
  [
    "beta without c",
    () => runtime.matmul(zeros(1, 1), zeros(1, 1), { beta: 1 }),
    TypeError,
    /beta is the factor on c, but c is not given/,
  ],
  [
    "c shape",
    () => runtime.matmul(zeros(2, 2), zeros(2, 2), { c: zeros(3) }),
    RangeError,
    /c must broadcast to the result \[2, 2\], got \[3\]/,
  ],
  [
    "axis",
    () => runtime.softmax(zeros(2, 2), { axis: 2 }),
    RangeError,
    /softmax: axis must be from -2 to 1 for rank 2, got 2/,
  ],
  [
    "axis type",
    () => runtime.logSoftmax(zeros(2, 2), { axis: 0.5 }),
    TypeError,
    /logSoftmax: axis must be an integer, got 0\.5/,
  ],
  [
    "repeated axis",
    () => runtime.logSumExp(zeros(2, 2), { axis: [0, -2] }),
    RangeError,
    /axis must name each axis once, got axis 0 twice/,
  ],
  [
    "keepDims",
    () => runtime.logSumExp(zeros(2), { keepDims: 1 as never }),
    TypeError,
    /keepDims must be true or false, got 1/,
  ],
  [
    "alpha",
    () => runtime.scale(zeros(2), undefined as never),
    TypeError,
    /scale: alpha must be a number, got undefined/,
  ],
  [
    "tensor data",
    () => runtime.tensor([2], new Float32Array(3)),
    RangeError,
    /tensor\.data must hold 2 elements for shape \[2\], got 3/,
  ],
  [
    "tensor shape",
    () => runtime.tensor(3 as never),
    TypeError,
    /tensor\.shape must be an array of axis lengths, got 3/,
  ],
  [
    "variant",
    () => createRuntimeSync({ variant: "fast" as never }),
    TypeError,
    /variant must be "auto", "simd" or "relaxed", got "fast"/,
  ],
  ["runtime option", () => createRuntimeSync({ threads: 2 } as never), TypeError, /unknown option "threads"/],
  [
    "contradiction",
    () => createRuntimeSync({ variant: "relaxed", deterministic: true }),
    TypeError,
    /deterministic: true is the "simd" variant/,
  ],
  [
    "module type",
    () => createRuntimeSync({ module: "x.wasm" as never }),
    TypeError,
    /module must be a WebAssembly\.Module, a Uint8Array or an ArrayBuffer, got "x\.wasm"/,
  ],
  [
    "memory limit",
    () => createRuntimeSync({ maxMemoryBytes: 0 }),
    RangeError,
    /maxMemoryBytes must be a positive number of bytes, got 0/,
  ],
];

describe("validation", () => {
  it.each(cases)("%s", (_, call, type, message) => {
    expect(call).toThrow(type);
    expect(call).toThrow(message);
    expect(runtime.softmax({ data: Float32Array.of(0, 0), shape: [2] }).data).toEqual(
      Float32Array.of(0.5, 0.5),
    );
  });

  it.each(["dropoutP", "enableGqa", "attn_mask", "is_causal"])(
    "rejects the unknown option %s by name",
    (name) => {
      expect(() => attend(x, x, x, { [name]: 1 })).toThrow(
        `scaledDotProductAttention: unknown option "${name}"`,
      );
    },
  );

  it("rejects a module that is not a build of this package", async () => {
    const empty = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0);
    expect(() => createRuntimeSync({ module: empty })).toThrow(
      /module must be a build of this version of wasm-attention, whose ABI is 1; got one with none/,
    );
    await expect(createRuntime({ module: empty })).rejects.toThrow(/got one with none/);
    await expect(createRuntime({ module: Uint8Array.of(1, 2, 3) })).rejects.toThrow(/refused to compile/);
  });

  it("out that overlaps an operand in Wasm memory is refused where it would be read again", () => {
    const a = runtime.tensor([4, 4]);
    expect(() => runtime.matmul(a, a, { out: a })).toThrow(/matmul: out must not overlap a in Wasm memory/);
    expect(() => runtime.scaledDotProductAttention(a, a, a, { out: a })).toThrow(
      /out must not overlap query/,
    );
    const shifted = { data: a.data.subarray(0, 8), shape: [2, 4] };
    const source = { data: a.data.subarray(4, 12), shape: [2, 4] };
    expect(() => runtime.softmax(source, { out: shifted })).toThrow(
      /out must not overlap x .* unless it is the same tensor/,
    );
    const sinks = { data: a.data.subarray(0, 1), shape: [1] };
    const slopes = { alibiSlopes: sinks, out: a };
    const q = zeros(4, 4);
    expect(() => runtime.scaledDotProductAttention(q, q, q, { sinks, out: a })).toThrow(
      /out must not overlap sinks/,
    );
    expect(() => runtime.scaledDotProductAttention(q, q, q, slopes)).toThrow(
      /out must not overlap alibiSlopes/,
    );
    a.dispose();
  });

  it("a resident tensor whose shape was written to is refused", () => {
    const t = runtime.tensor([2, 2]);
    t.shape[0] = 1000;
    expect(() => runtime.softmax(t)).toThrow(
      /softmax: x\.data must hold 2000 elements for shape \[1000, 2\], got 4/,
    );
    t.dispose();
  });

  it("a detached view is named as such", () => {
    const data = new Float32Array(4);
    structuredClone(data, { transfer: [data.buffer] });
    expect(() => runtime.softmax({ data, shape: [4] })).toThrow(
      /x\.data must hold 4 elements for shape \[4\], got 0; its buffer is detached/,
    );
  });

  it("dims is read where there is no shape, and out with dims comes back with a shape", () => {
    const out = { data: new Float32Array(2), dims: [2] };
    const result = runtime.softmax({ data: Float32Array.of(0, 0), dims: [2] }, { out });
    expect(result).toEqual({ data: Float32Array.of(0.5, 0.5), shape: [2] });
    expect(result.data).toBe(out.data);
  });
});

describe("runtimes", () => {
  it("info says what runs and why nothing better", async () => {
    const deterministic = (await createRuntime({ deterministic: true })).info();
    expect(deterministic).toMatchObject({ backend: "wasm", variant: "simd", threads: 1 });
    expect(deterministic.reasons).toEqual(["relaxed SIMD is not used: deterministic results were asked for"]);
    const auto = createRuntimeSync().info();
    expect(auto.variant === "relaxed" ? auto.reasons.length : auto.reasons[0]).toEqual(
      auto.variant === "relaxed" ? 0 : "relaxed SIMD is not used: this engine does not have it",
    );
    expect(createRuntimeSync({ module: wasmBytes("simd") }).info().variant).toBe("simd");
  });

  it("takes a compiled module, and instantiates the same source many times over", async () => {
    const module = await WebAssembly.compile(wasmBytes("simd"));
    const runtimes = await Promise.all([
      createRuntime({ module }),
      createRuntime({ module }),
      createRuntime({ module }),
    ]);
    for (const each of runtimes) expect(each.exp({ data: Float32Array.of(0), shape: [1] }).data[0]).toBe(1);
  });

  it("free functions are the methods of one default runtime", () => {
    const t = wasm.tensor([2], Float32Array.of(1, 2));
    expect(Array.from(wasm.scale(t, 3).data)).toEqual([3, 6]);
    expect(wasm.info().memoryBytes).toBeGreaterThan(0);
    const { softmax } = createRuntimeSync();
    expect(softmax({ data: Float32Array.of(1), shape: [1] }).data[0]).toBe(1);
  });
});

describe("empty sizes", () => {
  const shapes: [name: string, q: number[], kv: number[], out: number[], lse: number[]][] = [
    ["query length 0", [2, 0, 4], [2, 3, 4], [2, 0, 4], [2, 0]],
    ["batch 0", [0, 2, 3, 4], [0, 2, 5, 4], [0, 2, 3, 4], [0, 2, 3]],
    ["heads 0", [1, 0, 3, 4], [1, 0, 3, 4], [1, 0, 3, 4], [1, 0, 3]],
    ["key length 0", [2, 3, 4], [2, 0, 4], [2, 3, 4], [2, 3]],
  ];
  it.each(shapes)("%s", (_, q, kv, out, lse) => {
    const result = runtime.scaledDotProductAttention(zeros(...q), zeros(...kv), zeros(...kv), {
      returnLse: true,
    });
    expect(result.out).toEqual({ data: new Float32Array(zeros(...out).data.length), shape: out });
    expect(result.lse).toEqual({
      data: new Float32Array(zeros(...lse).data.length).fill(-Infinity),
      shape: lse,
    });
  });

  it("the other operations", () => {
    expect(runtime.matmul(zeros(2, 0), zeros(0, 3)).data).toEqual(new Float32Array(6));
    expect(runtime.matmul(zeros(0, 300), zeros(300, 100)).shape).toEqual([0, 100]);
    expect(runtime.matmul(zeros(0, 5, 300), zeros(100, 300), { transposeB: true }).shape).toEqual([
      0, 5, 100,
    ]);
    expect(runtime.softmax(zeros(2 ** 28, 0)).shape).toEqual([2 ** 28, 0]);
    expect(runtime.matmul(zeros(0, 2), zeros(2, 3))).toEqual({ data: new Float32Array(0), shape: [0, 3] });
    expect(runtime.softmax(zeros(2, 0))).toEqual({ data: new Float32Array(0), shape: [2, 0] });
    expect(runtime.logSumExp(zeros(2, 0)).data).toEqual(new Float32Array(2).fill(-Infinity));
    expect(runtime.logSumExp(zeros(2, 0, 3), { axis: 1 }).data).toEqual(new Float32Array(6).fill(-Infinity));
    expect(runtime.scale(zeros(0), 2).data.length).toBe(0);
    expect(runtime.exp(zeros(0)).data.length).toBe(0);
  });
});

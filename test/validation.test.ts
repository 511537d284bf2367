import { describe, expect, it } from "vitest";
import { createRuntimeSync } from "../src/index.ts";
import { itRefuses, type WrongCall, zeros } from "./support.ts";

const runtime = createRuntimeSync({ variant: "simd" });
const cases: WrongCall[] = [
  [
    "axis of a scalar",
    () => runtime.softmax(zeros()),
    RangeError,
    /softmax: x must have rank 1 or more for an axis, got a scalar/,
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
    RangeError,
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
];

describe("validation", () => {
  itRefuses(runtime, cases);

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

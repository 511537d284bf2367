// Small attention again and again: from the third call of the same shapes on, only the numbers are looked at. Nothing
// but the time may tell: every call here is made after such calls, and beside a runtime that has made none.

import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import {
  type AttentionOptions,
  createRuntimeSync,
  type ResidentTensor,
  type Runtime,
  type Tensor,
  type TensorLike,
} from "../src/index.ts";
import {
  describeVariants,
  freshRuntime,
  itRefuses,
  randomTensor,
  type TestTensor,
  wasmBytes,
  zeros,
} from "./support.ts";

let seed = 0;
const random = (...shape: number[]): TestTensor => randomTensor(shape, ++seed);

/** Calls until one of these shapes is served by the one before. */
function prepare(runtime: Runtime, shape: number[], options?: AttentionOptions): void {
  for (let i = 0; i < 3; i++) {
    runtime.scaledDotProductAttention(random(...shape), random(...shape), random(...shape), options);
  }
}

describeVariants("attention again", (runtime, variant) => {
  const SHAPE = [1, 2, 4, 4];
  const [q, k, v] = [random(...SHAPE), random(...SHAPE), random(...SHAPE)];

  it.each<[string, number[], AttentionOptions | undefined]>([
    ["4 x 4", [1, 1, 4, 4], undefined],
    ["rank 2", [3, 5], {}],
    ["causal", [1, 2, 7, 8], { isCausal: true }],
    ["isCausal false", [2, 1, 5, 3], { isCausal: false }],
    ["isCausal undefined", [2, 1, 5, 3], { isCausal: undefined }],
    ["one query", [1, 4, 1, 16], undefined],
  ])("gives the bits of the first call: %s", (_, shape, options) => {
    for (let i = 0; i < 5; i++) {
      const [query, key, value] = [random(...shape), random(...shape), random(...shape)];
      const expected = freshRuntime(variant).scaledDotProductAttention(query, key, value, options);
      expect(runtime.scaledDotProductAttention(query, key, value, options)).toEqual(expected);
    }
  });

  it("writes to `out`, an operand too, and returns it", () => {
    prepare(runtime, SHAPE);
    const expected = freshRuntime(variant).scaledDotProductAttention(q, k, v).data;
    const out = { data: new Float32Array(32), shape: SHAPE };
    expect(runtime.scaledDotProductAttention(q, k, v, { out })).toBe(out);
    expect(out.data).toEqual(expected);
    const [a, b, c] = [q, k, v].map(({ data }) => ({ data: data.slice(), shape: SHAPE })) as [
      Tensor,
      Tensor,
      Tensor,
    ];
    expect(runtime.scaledDotProductAttention(a, b, c, { out: b, isCausal: false }).data).toEqual(expected);
    const view = { data: new Float32Array(40).subarray(3, 35), shape: SHAPE };
    expect(runtime.scaledDotProductAttention(q, k, v, { out: view }).data).toEqual(expected);
    const resident = runtime.tensor(SHAPE);
    expect(runtime.scaledDotProductAttention(q, k, v, { out: resident })).toBe(resident);
    expect(resident.data).toEqual(expected);
    resident.dispose();
    const dims = runtime.scaledDotProductAttention(q, k, v, {
      out: { data: new Float32Array(32), dims: SHAPE },
    });
    expect(dims).toEqual({ data: expected, shape: SHAPE });
  });

  it("gives each call a result of its own", () => {
    prepare(runtime, SHAPE);
    const first = runtime.scaledDotProductAttention(q, k, v);
    const copy = { data: first.data.slice(), shape: [...first.shape] };
    const second = runtime.scaledDotProductAttention(k, q, v);
    expect(first).toEqual(copy);
    (second.shape as number[])[0] = 9;
    second.data.fill(0);
    expect(runtime.scaledDotProductAttention(q, k, v)).toEqual(copy);
  });

  it.each<[string, TensorLike[], AttentionOptions?]>([
    ["a longer shape", [random(1, 1, 2, 4, 4), random(1, 1, 2, 4, 4), random(1, 1, 2, 4, 4)]],
    ["more keys", [q, random(1, 2, 6, 4), random(1, 2, 6, 4)]],
    ["another option", [q, k, v], { scale: 1 }],
    ["causal", [q, k, v], { isCausal: true }],
    [
      "an option of the prototype",
      [q, k, v],
      new (class {
        get scale() {
          return 2;
        }
      })(),
    ],
    ["dims in place of shape", [{ data: q.data, dims: SHAPE }, k, v]],
    [
      "an array of another realm",
      [{ data: runInNewContext("new Float32Array(32).fill(1)"), shape: SHAPE }, k, v],
    ],
    ["an odd offset", [{ data: random(40).data.subarray(3, 35), shape: SHAPE }, k, v]],
  ])("is not taken for what differs: %s", (_, operands, options) => {
    prepare(runtime, SHAPE);
    const [query, key, value] = operands as [TensorLike, TensorLike, TensorLike];
    const expected = freshRuntime(variant).scaledDotProductAttention(query, key, value, options);
    expect(runtime.scaledDotProductAttention(query, key, value, options)).toEqual(expected);
  });

  it("reads tensors that live in Wasm memory where they live", () => {
    prepare(runtime, SHAPE);
    const expected = freshRuntime(variant).scaledDotProductAttention(q, k, v).data;
    const resident = runtime.tensor(SHAPE, k.data);
    const view = { data: resident.data, shape: SHAPE };
    expect(runtime.scaledDotProductAttention(q, resident, v).data).toEqual(expected);
    expect(runtime.scaledDotProductAttention(q, view, v).data).toEqual(expected);
    resident.dispose();
    expect(() => runtime.scaledDotProductAttention(q, view, v)).toThrow(/belongs to no tensor/);
  });

  it("stays right between calls of every other kind", () => {
    const own = freshRuntime(variant);
    const expected = freshRuntime(variant).scaledDotProductAttention(q, k, v).data;
    for (let i = 0; i < 20; i++) {
      prepare(own, SHAPE);
      own.softmax(random(30 + 40 * i, 99));
      own.tensor([999 * i]);
      expect(own.scaledDotProductAttention(q, k, v).data).toEqual(expected);
      prepare(own, [1, 1 + (i % 3), 8, 8]);
    }
  });

  it("leaves memory flat, whatever shapes come after each other", () => {
    const own = freshRuntime(variant);
    const cycle = () => {
      for (let n = 1; n < 12; n++) prepare(own, [1, 1, n, 12 - n]);
    };
    cycle();
    const before = own.info().memoryBytes;
    for (let i = 0; i < 50; i++) cycle();
    expect(own.info().memoryBytes).toBe(before);
  });

  const gone = () => {
    const tensor = runtime.tensor(SHAPE);
    tensor.dispose();
    return tensor;
  };
  const attend = (query: unknown, options?: unknown) => () => {
    prepare(runtime, SHAPE);
    return runtime.scaledDotProductAttention(query as Tensor, k, v, options as AttentionOptions);
  };
  const detaching = () => {
    prepare(runtime, SHAPE);
    const query = random(...SHAPE);
    const key = {
      shape: SHAPE,
      get data() {
        if (query.data.length > 0) structuredClone(query.data, { transfer: [query.data.buffer] });
        return k.data;
      },
    };
    return runtime.scaledDotProductAttention(query, key, v);
  };
  const disposed = () => attend(gone())();

  it("a getter that calls again, with other shapes, does not take the ground away", () => {
    const own = freshRuntime(variant);
    prepare(own, SHAPE);
    const tensors: ResidentTensor[] = [];
    const query = {
      data: q.data,
      get shape() {
        prepare(own, [1, 3, 8, 4]);
        for (let i = 0; i < 500; i++) tensors.push(own.tensor([16]));
        return SHAPE;
      },
    };
    const expected = freshRuntime(variant).scaledDotProductAttention(q, k, v).data;
    expect(own.scaledDotProductAttention(query, k, v).data).toEqual(expected);
    expect(tensors.every(({ data }) => data.every((x) => x === 0))).toBe(true);
  });

  it("takes its shapes from what was checked, and grows no memory under an out that is a view of it", () => {
    const own = freshRuntime(variant);
    const twice = () => {
      let reads = 0;
      return {
        get shape() {
          return reads > 0 ? [1] : SHAPE;
        },
        get data() {
          return new Float32Array(reads++ > 0 ? 1 : 32);
        },
      };
    };
    for (let i = 0; i < 3; i++) own.scaledDotProductAttention(q, k, v, { out: twice() });
    const neighbour = own.tensor([16]);
    expect(own.scaledDotProductAttention(q, k, v).shape).toEqual(SHAPE);
    expect(neighbour.data.every((x) => x === 0)).toBe(true);

    const tight = freshRuntime(variant);
    const o = tight.tensor(SHAPE);
    tight.scaledDotProductAttention(q, k, v);
    const fillers: ResidentTensor[] = [];
    const before = tight.info().memoryBytes;
    while (tight.info().memoryBytes === before) fillers.push(tight.tensor([16]));
    fillers.pop()?.dispose();
    expect(
      tight.scaledDotProductAttention(q, k, v, { out: { data: o.data, shape: SHAPE } }).data.length,
    ).toBe(32);
  });

  it("gives its memory up where room is short, and goes on without", () => {
    const own = createRuntimeSync({ module: wasmBytes(variant), maxMemoryBytes: 2 ** 19 });
    const most = (2 ** 19 - 8192) / 4 - 100;
    for (let i = 0; i < 3; i++) {
      prepare(own, SHAPE);
      own.tensor([most]).dispose();
    }
    const all = own.tensor([most - 12_000]);
    for (let i = 0; i < 3; i++) prepare(own, [1, 16, 4, 4]);
    const expected = freshRuntime(variant).scaledDotProductAttention(q, k, v).data;
    expect(own.scaledDotProductAttention(q, k, v).data).toEqual(expected);
    all.dispose();
  });

  it("a view of memory that was given back is none of a tensor where that memory is now its own", () => {
    const own = freshRuntime(variant);
    const big = own.tensor([40_000]);
    const { data } = big;
    big.dispose();
    prepare(own, SHAPE);
    for (let at = 0; at < 40_000; at += 100) {
      const view = { data: data.subarray(at, at + 16), shape: [16] };
      expect(() => own.exp({ data: new Float32Array(16), shape: [16] }, { out: view })).toThrow(
        /belongs to no tensor/,
      );
    }
  });

  itRefuses(runtime, [
    [
      "a tensor disposed of",
      disposed,
      TypeError,
      /query is a resident tensor of shape \[1, 2, 4, 4\] that was disposed/,
    ],
    ["no tensor", attend(null), TypeError, /query must be a tensor/],
    [
      "a short array",
      attend({ data: new Float32Array(31), shape: SHAPE }),
      RangeError,
      /query\.data must hold 32/,
    ],
    ["another type", attend({ data: new Float64Array(32), shape: SHAPE }), TypeError, /a Float64Array/],
    [
      "a shape that is none",
      attend({ data: q.data, shape: "1,2,4,4" }),
      TypeError,
      /query\.shape must be an array/,
    ],
    ["options that are none", attend(q, null), TypeError, /options must be an object/],
    ["an option that is not known", attend(q, { casual: true }), TypeError, /unknown option "casual"/],
    ["an out of another shape", attend(q, { out: zeros(1, 2, 4, 5) }), RangeError, /out\.shape must be/],
    [
      "an out too short",
      attend(q, { out: { data: new Float32Array(31), shape: SHAPE } }),
      RangeError,
      /out\.data must/,
    ],
    [
      "an out disposed of",
      () => attend(q, { out: gone() })(),
      TypeError,
      /out is a resident tensor .* disposed/,
    ],
    ["a flag that is none", attend(q, { isCausal: 1 }), TypeError, /isCausal must be true or false/],
    ["what a getter detaches", detaching, RangeError, /its buffer is detached/],
  ]);
});

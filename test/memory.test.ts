import { runInNewContext } from "node:vm";
import { expect, it } from "vitest";
import { createRuntimeSync, type Runtime, type Tensor } from "../src/index.ts";
import { describeVariants, randomTensor, wasmBytes } from "./support.ts";

const MIB = 2 ** 20;

const filled = (shape: number[], seed = 1): Tensor => randomTensor(shape, seed) as Tensor;

/** A generator of small sizes, the same every time. */
function sizes(seed: number): () => number {
  let state = seed;
  return () => {
    state = (Math.imul(state, 1103515245) + 12345) & 0x7fffffff;
    return 1 + (state % 40);
  };
}

/** One call of each operation on shapes that `next` gives. */
function mixedCalls(runtime: Runtime, next: () => number): void {
  const [l, d, n] = [next(), next(), next()] as const;
  const q = filled([2, l, d]);
  const k = filled([2, n, d]);
  runtime.scaledDotProductAttention(q, k, k, { isCausal: true });
  runtime.matmul(q, k, { transposeB: true });
  runtime.softmax(q);
  runtime.logSumExp(q, { axis: 1 });
}

describeVariants("memory", (runtime, variant) => {
  const fresh = (maxMemoryBytes?: number) =>
    createRuntimeSync({ module: wasmBytes(variant), maxMemoryBytes });

  it("stays flat over 10,000 calls of mixed shapes", () => {
    const own = fresh();
    for (let i = 0, next = sizes(7); i < 500; i++) mixedCalls(own, next);
    own.scaledDotProductAttention(filled([2, 40, 40]), filled([2, 40, 40]), filled([2, 40, 40]), {
      returnLse: true,
    });
    const before = own.info().memoryBytes;
    for (let i = 0, next = sizes(11); i < 2500; i++) mixedCalls(own, next);
    expect(own.info().memoryBytes).toBe(before);
  });

  it("stays flat over 1,000 create and dispose cycles of interleaved resident tensors", () => {
    const own = fresh();
    let survivor = own.tensor([1]); // outlives its cycle, so that blocks are freed around one that is in use
    const cycles = () => {
      for (let i = 0, next = sizes(3); i < 1000; i++) {
        const tensors = Array.from({ length: 8 }, () => own.tensor([next(), next() * 64]));
        survivor.dispose();
        for (const k of [1, 4, 6, 0, 7, 3, 5]) tensors[k]?.dispose();
        survivor = tensors[2] as typeof survivor;
      }
    };
    cycles();
    const before = own.info().memoryBytes;
    cycles();
    expect(own.info().memoryBytes).toBe(before);
  });

  it("attention (1, 8, 1024, 1024, 64) needs less than 8 MiB beyond its inputs and output", () => {
    const own = fresh();
    const x = filled([1, 8, 1024, 64]);
    own.scaledDotProductAttention(x, filled([1, 8, 1024, 64], 2), filled([1, 8, 1024, 64], 3));
    expect(own.info().memoryBytes - 4 * x.data.byteLength).toBeLessThan(8 * MIB);
  });

  it("its backward needs less than 16 MiB beyond its inputs and outputs", () => {
    const [query, key, value, dOut] = [1, 2, 3, 4].map((seed) => filled([1, 8, 1024, 64], seed)) as [
      Tensor,
      Tensor,
      Tensor,
      Tensor,
    ];
    const { out, lse } = runtime.scaledDotProductAttention(query, key, value, { returnLse: true });
    const own = fresh();
    own.scaledDotProductAttentionBackward({ dOut, query, key, value, out, lse });
    const given = 5 * query.data.byteLength + lse.data.byteLength;
    const gradients = 3 * query.data.byteLength;
    expect(own.info().memoryBytes - given - gradients).toBeLessThan(16 * MIB);
  });

  it("keeps results given out before a growth, and re-derives views of resident tensors", () => {
    const own = fresh();
    const small = own.softmax(filled([4, 4]));
    const copy = small.data.slice();
    const resident = own.tensor([3], Float32Array.of(1, 2, 3));
    const stale = resident.data;
    own.scale(filled([4 * MIB]), 1);
    expect(small.data).toEqual(copy);
    expect(stale.length).toBe(0);
    expect(resident.data).toEqual(Float32Array.of(1, 2, 3));
  });

  it("takes a plain view of a resident tensor even where the same call grows the memory", () => {
    const own = fresh();
    const resident = own.tensor([2, 2], Float32Array.of(1, 2, 3, 4));
    const view = { data: resident.data, shape: [2, 2] };
    const wide = filled([2, 600_000]);
    const product = own.matmul(view, wide);
    for (const j of [0, 599_999]) {
      const [x, y] = [wide.data[j] as number, wide.data[600_000 + j] as number];
      expect(product.data[j]).toBeCloseTo(x + 2 * y, 4);
      expect(product.data[600_000 + j]).toBeCloseTo(3 * x + 4 * y, 4);
    }
    const stale = { data: view.data, shape: [2, 2] };
    expect(() => own.softmax(stale)).toThrow(
      /softmax: x\.data must hold 4 elements .* got 0; its buffer is detached/,
    );
    expect(own.softmax({ data: resident.data, shape: [2, 2] }).data.length).toBe(4);
  });

  it("a limit that is reached is an error with both numbers, nothing is lost and the next call is right", () => {
    const own = fresh(2 * MIB);
    const kept = own.tensor([4], Float32Array.of(1, 2, 3, 4));
    const before = own.info().memoryBytes;
    expect(() => own.softmax(filled([MIB]))).toThrow(
      /softmax: needs \d+ bytes of Wasm memory, more than maxMemoryBytes = 2097152/,
    );
    expect(() => own.tensor([64, MIB])).toThrow(RangeError);
    expect(own.info().memoryBytes).toBe(before);
    expect(own.scale(kept, 2).data).toEqual(Float32Array.of(2, 4, 6, 8));
  });

  it("sizes beyond any memory are an error before anything is allocated", () => {
    const before = runtime.info().memoryBytes;
    const huge = { data: new Float32Array(1), shape: [64, 200_000, 128] };
    expect(() => runtime.scaledDotProductAttention(huge, huge, huge)).toThrow(RangeError);
    expect(() => runtime.tensor([200_000, 200_000])).toThrow(/tensor: needs \d+ bytes/);
    const wide = (rows: number, width: number) => ({
      data: new Float32Array(rows * width),
      shape: [rows, width],
    });
    const [q, k] = [wide(5, 2 ** 24), wide(1, 2 ** 24)]; // the scratch alone is beyond 32 bits
    expect(() => runtime.scaledDotProductAttention(q, k, wide(1, 1))).toThrow(/needs \d+ bytes/);
    const many = { data: new Float32Array(2 ** 23), shape: [2 ** 23, 1, 1] };
    const one = { data: new Float32Array(1), shape: [1, 1, 1] };
    expect(() => runtime.scaledDotProductAttention(many, one, one)).toThrow(/needs \d+ bytes/);
    const column = filled([40_000, 1]);
    expect(() => runtime.matmul(column, column, { transposeB: true })).toThrow(/matmul: needs \d+ bytes/);
    expect(runtime.info().memoryBytes).toBe(before);
    expect(runtime.exp({ data: Float32Array.of(0), shape: [1] }).data).toEqual(Float32Array.of(1));
  });

  it("the arena of a big call does not stand in the way of resident tensors", () => {
    const own = fresh(24 * MIB);
    own.softmax(filled([2 * MIB])); // one row, which is never cut: 16 MiB of arena
    const tensor = own.tensor([4 * MIB]); // 16 MiB: only fits in the idle arena
    expect(tensor.data.length).toBe(4 * MIB);
    tensor.dispose();
    expect(own.scale(filled([2 * MIB]), 1).data.length).toBe(2 * MIB);
  });

  it("resident operands give resident results; a mixed call gives a plain one; out is returned", () => {
    const x = runtime.tensor([2, 2], Float32Array.of(1, 2, 3, 4));
    const y = runtime.matmul(x, x);
    expect(Array.from(y.data)).toEqual([7, 10, 15, 22]);
    expect(y.disposed).toBe(false);
    const mixed = runtime.matmul(x, filled([2, 3]));
    expect("dispose" in mixed).toBe(false);
    expect(runtime.matmul(x, x, { out: y })).toBe(y);
    expect(runtime.softmax(x, { out: x })).toBe(x);
    const plain = { data: new Float32Array(4), shape: [2, 2] };
    expect(runtime.scale(x, 2, { out: plain })).toBe(plain);
    expect(plain.data).toEqual(x.data.map((value) => 2 * value));
    for (const tensor of [x, y]) tensor.dispose();
  });

  it("Symbol.dispose and dispose give the memory back once; later use says so", () => {
    const tensor = runtime.tensor([5]);
    tensor[Symbol.dispose]();
    tensor.dispose();
    expect(tensor.disposed).toBe(true);
    expect(() => tensor.data).toThrow(/ResidentTensor: data of shape \[5\] was read after dispose/);
    expect(() => runtime.softmax(tensor)).toThrow(
      /softmax: x is a resident tensor of shape \[5\] that was disposed/,
    );
    expect(runtime.softmax(filled([5])).data.length).toBe(5);
  });

  it("a resident tensor of another runtime is copied in, not misread", () => {
    const other = fresh();
    other.tensor([1000]);
    const foreign = other.tensor([2], Float32Array.of(3, 4));
    expect(runtime.scale(foreign, 2).data).toEqual(Float32Array.of(6, 8));
  });

  it("takes options that are views of Wasm memory even where the call grows it", () => {
    const [q, k] = [filled([1, 1, 3, 2]), filled([1, 1, 70_000, 2], 2)];
    const own = fresh();
    const held = own.tensor([4]);
    const ints = new Int32Array(held.data.buffer, held.data.byteOffset, 1).fill(3);
    const want = runtime.scaledDotProductAttention(q, k, k, { kvLengths: Int32Array.of(3) });
    expect(own.scaledDotProductAttention(q, k, k, { kvLengths: ints }).data).toEqual(want.data);
    const other = fresh();
    const bits = other.tensor([17_500]);
    const bytes = new Uint8Array(bits.data.buffer, bits.data.byteOffset, 70_000).fill(1, 0, 3);
    const attnMask = { data: bytes, shape: [70_000] };
    expect(other.scaledDotProductAttention(q, k, k, { attnMask }).data).toEqual(want.data);
  });

  it("a view of a disposed tensor is refused, and so is one of memory that belongs to no tensor", () => {
    const own = fresh();
    const tensor = own.tensor([4]);
    const { data } = tensor;
    tensor.dispose();
    expect(() => own.softmax({ data, shape: [4] })).toThrow(
      /softmax: x\.data is a view of Wasm memory that belongs to no tensor/,
    );
    const all = { data: new Float32Array(data.buffer, 0, 4), shape: [4] };
    expect(() => own.softmax(filled([4]), { out: all })).toThrow(
      /out\.data is a view of Wasm memory that belongs to no tensor/,
    );
  });

  it("logSumExp over axes apart, one of them empty, leaves its neighbours alone", () => {
    const own = fresh();
    const neighbours = [0, 1, 2].map(() => own.tensor([700], new Float32Array(700).fill(7)));
    neighbours[1]?.dispose();
    const empty = { data: new Float32Array(0), shape: [200, 3, 0] };
    expect(own.logSumExp(empty, { axis: [0, 2] }).data).toEqual(new Float32Array(3).fill(-Infinity));
    for (const i of [0, 2]) expect(neighbours[i]?.data.every((x) => x === 7)).toBe(true);
  });

  it("reads each option once, before anything is copied in", () => {
    const [q, k] = [filled([3, 4]), filled([5, 4], 2)];
    const want = runtime.scaledDotProductAttention(q, k, k, { queryOffset: 1, isCausal: true });
    let reads = 0;
    const options = {
      isCausal: true,
      get queryOffset() {
        reads++;
        runtime.softmax(filled([400]));
        return 1;
      },
    };
    expect(runtime.scaledDotProductAttention(q, k, k, options).data).toEqual(want.data);
    expect(reads).toBe(1);
  });

  it("reads nothing of an empty operand, even one that stands at the end of the memory", () => {
    const own = fresh();
    const q = filled([16, 8]);
    const backward = (value: Tensor) => {
      const empty = { data: new Float32Array(0), shape: [16, 0] };
      const { out, lse } = own.scaledDotProductAttention(q, q, empty, { returnLse: true });
      return own.scaledDotProductAttentionBackward({
        dOut: empty,
        dLse: lse,
        query: q,
        key: q,
        value,
        out,
        lse,
      });
    };
    const want = backward({ data: new Float32Array(0), shape: [16, 0] });
    const { buffer } = own.tensor([4]).data;
    const atEnd = { data: new Float32Array(buffer, buffer.byteLength, 0), shape: [16, 0] };
    expect(backward(atEnd).dQuery.data).toEqual(want.dQuery.data);
  });

  it("takes subarrays at odd offsets and views of another realm", () => {
    const backing = filled([64]).data;
    const at = (offset: number) => ({ data: backing.subarray(offset, offset + 6), shape: [2, 3] });
    const copy = (offset: number) => ({ data: backing.slice(offset, offset + 6), shape: [2, 3] });
    const odd = runtime.scaledDotProductAttention(at(1), at(7), at(13));
    expect(odd.data).toEqual(runtime.scaledDotProductAttention(copy(1), copy(7), copy(13)).data);
    const foreign = runInNewContext("Float32Array.of(1, 2, 3)") as Float32Array;
    expect(foreign instanceof Float32Array).toBe(false);
    expect(runtime.scale({ data: foreign, shape: [3] }, 2).data).toEqual(Float32Array.of(2, 4, 6));
    const mask = runInNewContext("Uint8Array.of(1, 0)") as Uint8Array;
    const q = filled([1, 3]);
    const kv = filled([2, 3], 5);
    const out = runtime.scaledDotProductAttention(q, kv, kv, { attnMask: { data: mask, shape: [1, 2] } });
    expect(out.data).toEqual(kv.data.slice(0, 3));
  });
});

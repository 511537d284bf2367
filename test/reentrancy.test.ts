import { describe, expect, it } from "vitest";
import { createRuntimeSync, type Shape, type TensorLike } from "../src/index.ts";
import { zeros } from "./support.ts";

const runtime = createRuntimeSync();

/** A tensor whose shape is read once `then` has run: what a getter of a caller may do in the middle of a call. */
const readingDoes = (data: Float32Array, shape: Shape, then: () => void): TensorLike => ({
  data,
  get shape() {
    then();
    return shape;
  },
});

const gone = /was disposed, changed or detached while the call read its other arguments/;

describe("what a getter does in the middle of a call", () => {
  it("a resident operand disposed is refused, whatever has taken its place", () => {
    const x = runtime.tensor([4]);
    const dispose = (): void => {
      x.dispose();
      runtime.tensor([4], Float32Array.of(9, 9, 9, 9));
    };
    expect(() => runtime.add(x, readingDoes(new Float32Array(4), [4], dispose))).toThrow(gone);
    const q = runtime.tensor([1, 2, 4]);
    const bias = readingDoes(new Float32Array(4), [2, 2], () => q.dispose());
    expect(() => runtime.scaledDotProductAttention(q, q, q, { attnMask: bias })).toThrow(gone);
    const out = runtime.tensor([4]);
    const late = readingDoes(new Float32Array(4), [4], () => out.dispose());
    expect(() => runtime.add(late, zeros(4), { out })).toThrow(/disposed/);
  });

  it.each([4, 100])("plain data of %i detached is refused", (n) => {
    const data = new Float32Array(n);
    const detach = (): void => {
      structuredClone(data.buffer, { transfer: [data.buffer] });
    };
    const other = readingDoes(new Float32Array(n), [n], detach);
    expect(() => runtime.add({ data, shape: [n] }, other)).toThrow(gone);
  });

  it("a shape changed is the one that was checked", () => {
    const shape = [1, 2, 4];
    const q = { data: new Float32Array(8), shape };
    const v = readingDoes(new Float32Array(8), [1, 2, 4], () => {
      shape[1] = 100_000;
    });
    expect(runtime.scaledDotProductAttention(q, zeros(1, 2, 4), v).shape).toEqual([1, 2, 4]);
    const victim = runtime.tensor([64], new Float32Array(64).fill(7));
    const { data } = runtime.tensor([4]);
    let reads = 0;
    const growing = new Proxy([4], {
      get: (target, key) => (key === "0" && ++reads > 1 ? 80 : Reflect.get(target, key)),
    });
    runtime.relu(zeros(4), { out: { data, shape: growing } });
    expect(victim.data.every((x) => x === 7)).toBe(true);
  });

  it("a cache that is appended to or disposed is refused, and nothing stays behind", () => {
    const token = (n: number) => zeros(1, 1, n, 4);
    const cache = runtime.keyValueCache({ numKvHeads: 1, headDim: 4 });
    cache.append(token(8), token(8));
    const grow = readingDoes(new Float32Array(8), [8], () => cache.append(token(100), token(100)));
    expect(() => cache.attend(token(1), { attnMask: grow })).toThrow(gone);
    const dispose = () => cache.dispose();
    expect(() => cache.append(token(1), readingDoes(new Float32Array(4), [1, 1, 1, 4], dispose))).toThrow(
      /append: the cache was disposed/,
    );
    expect(cache.memoryBytes).toBe(0);
    const other = runtime.keyValueCache({ numKvHeads: 1, headDim: 4 });
    other.append(token(8), token(8));
    const last = readingDoes(new Float32Array(4), [1, 1, 1, 4], () => other.dispose());
    expect(() => other.attend(last)).toThrow(/attend: the cache was disposed/);
  });

  it("a mask that gets shorter is refused", () => {
    const q = zeros(1, 8, 4);
    const resizable: unknown = Reflect.construct(ArrayBuffer, [64, { maxByteLength: 4096 }]);
    const buffer = resizable as ArrayBuffer & { resize(bytes: number): void }; // of ES2024
    const data = new Uint8Array(buffer);
    const sinks = readingDoes(new Float32Array(1), [1], () => buffer.resize(8));
    const options = { attnMask: { data, shape: [8, 8] }, sinks };
    expect(() => runtime.scaledDotProductAttention(q, q, q, options)).toThrow(gone);
  });

  it("an array of booleans is read once", () => {
    const own = createRuntimeSync();
    const q = zeros(1, 4, 4);
    const victims: { data: Float32Array }[] = [];
    const data = new Array<boolean>(16).fill(true);
    let reads = 0;
    Object.defineProperty(data, 0, {
      get() {
        if (++reads === 2) data.push(...new Array<boolean>(50_000).fill(true));
        return true;
      },
    });
    const options = { attnMask: { data, shape: [4, 4] } };
    own.scaledDotProductAttention(q, q, q, options);
    for (let i = 0; i < 40; i++) victims.push(own.tensor([100]));
    expect(own.scaledDotProductAttention(q, q, q, options).shape).toEqual([1, 4, 4]);
    expect(victims.every((victim) => victim.data.every((x) => x === 0))).toBe(true);
  });

  it("methods and constructors of subclasses are not called", () => {
    class Values extends Float32Array {
      override set(): void {
        throw new Error("set was called");
      }
      override subarray(): Float32Array<ArrayBuffer> {
        throw new Error("subarray was called");
      }
    }
    class Axes extends Array<number> {
      override slice(): number[] {
        throw new Error("slice was called");
      }
    }
    const shape = new Axes(2, 3);
    const x = { data: new Values(6), shape };
    expect(runtime.exp(x, { out: { data: new Values(6), shape: [2, 3] } }).data[5]).toBe(1);
    expect(runtime.add(x, x).shape).toEqual([2, 3]);
  });

  it("mergeAttention reads its parts when all are there", () => {
    const part = () => ({ out: runtime.tensor([2, 4]), lse: runtime.tensor([2]) });
    const [first, second] = [part(), part()];
    const grow = readingDoes(new Float32Array(8), [2, 4], () => runtime.tensor([5_000_000]).dispose());
    expect(runtime.mergeAttention([first, { out: grow, lse: zeros(2) }]).out.data.length).toBe(8);
    const dispose = readingDoes(new Float32Array(8), [2, 4], () => second.out.dispose());
    expect(() => runtime.mergeAttention([second, { out: dispose, lse: zeros(2) }])).toThrow(gone);
  });

  it("leaves no memory behind", () => {
    const own = createRuntimeSync();
    let bytes = 0;
    for (let round = 0; round < 300; round++) {
      const x = own.tensor([20_000]);
      const y = own.tensor([20_000]);
      Object.defineProperty(y, "shape", {
        get: () => {
          x.dispose();
          return [20_000];
        },
      });
      expect(() => own.add(x, y)).toThrow(gone);
      y.dispose();
      if (round === 2) bytes = own.info().memoryBytes;
    }
    expect(own.info().memoryBytes).toBe(bytes);
  });
});

describe("memory of a tensor that is disposed", () => {
  it("is refused as a mask and as data", () => {
    const freed = runtime.tensor([4]);
    const { data } = freed;
    const bytes = new Uint8Array(data.buffer, data.byteOffset, 2);
    freed.dispose();
    const x = zeros(1, 2, 4);
    const attnMask = { data: bytes, shape: [2] };
    expect(() => runtime.scaledDotProductAttention(x, x, x, { attnMask })).toThrow(
      /attnMask.*belongs to no tensor/,
    );
    expect(() => runtime.tensor([4], data)).toThrow(/belongs to no tensor/);
  });
});

describe("an append that fails for want of memory", () => {
  it("changes nothing", () => {
    const own = createRuntimeSync({ maxMemoryBytes: 8 * 65536 });
    const cache = own.keyValueCache({ numKvHeads: 1, headDim: 16, windowSize: [3, 0] });
    const token = (n: number) => zeros(1, 1, n, 16);
    cache.append(token(8), token(8));
    const before = [cache.length, cache.capacity, cache.memoryBytes];
    expect(() => cache.append(token(3000), token(3000))).toThrow(/maxMemoryBytes/);
    expect([cache.length, cache.capacity, cache.memoryBytes]).toEqual(before);
    expect(cache.attend(token(8)).shape).toEqual([1, 1, 8, 16]);
  });
});

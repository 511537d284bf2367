import { describe, expect, it } from "vitest";
import { createRuntimeSync, keyValueCache } from "../src/index.ts";
import { itRefuses, randomTensor, zeros } from "./support.ts";

describe("KeyValueCache refuses", () => {
  const runtime = createRuntimeSync();
  const make = (options: object) => () => runtime.keyValueCache({ numKvHeads: 2, headDim: 4, ...options });
  const cache = runtime.keyValueCache({ numKvHeads: 2, headDim: 4, capacity: 8 });
  cache.append(zeros(1, 2, 6, 4), zeros(1, 2, 6, 4));
  const ring = runtime.keyValueCache({ numKvHeads: 2, headDim: 4, capacity: 6, windowSize: [3, 0] });
  ring.append(zeros(1, 2, 5, 4), zeros(1, 2, 5, 4));
  const gone = runtime.keyValueCache({ numKvHeads: 2, headDim: 4 });
  gone.dispose();
  const x = (n: number, ...others: number[]) => zeros(1, 2, n, ...(others.length ? others : [4]));

  itRefuses(runtime, [
    [
      "no size",
      make({ headDim: undefined }),
      TypeError,
      /keyValueCache: headDim must be an integer from 1 .* got undefined/,
    ],
    ["size 0", make({ numKvHeads: 0 }), RangeError, /numKvHeads must be an integer from 1 to \d+, got 0/],
    ["batch", make({ batch: 1.5 }), RangeError, /batch must be an integer from 1 to \d+, got 1\.5/],
    ["dtype", make({ dtype: "bfloat16" }), TypeError, /dtype must be "float32" or "float16", got "bfloat16"/],
    ["layout", make({ layout: "bhdl" }), TypeError, /layout must be "bhld" or "blhd", got "bhdl"/],
    ["unknown option", make({ window: 3 }), TypeError, /keyValueCache: unknown option "window"/],
    ["a window as a number", make({ windowSize: 4 }), TypeError, /windowSize must be \[left, right\], got 4/],
    [
      "a window ahead",
      make({ windowSize: [3, 1] }),
      RangeError,
      /windowSize must be \[left, 0\].* got \[3, 1\]/,
    ],
    [
      "a ring too small",
      make({ windowSize: [3, 0], capacity: 3 }),
      RangeError,
      /at least the 4 keys of windowSize \[3, 0\], got 3/,
    ],
    [
      "capacity beyond memory",
      make({ capacity: 2 ** 28 }),
      RangeError,
      /keyValueCache: needs \d+ bytes of Wasm memory/,
    ],
    [
      "past the capacity",
      () => cache.append(x(3), x(3)),
      RangeError,
      /append: capacity 8 must hold the new tokens and the 6 before them that are there, got 3 new: 9 in all/,
    ],
    [
      "a chunk past the ring",
      () => ring.append(x(4), x(4)),
      RangeError,
      /append: capacity 6 must hold the new tokens and the 3 before them that windowSize \[3, 0\] keeps, got 4/,
    ],
    [
      "key of another width",
      () => cache.append(x(1, 5), x(1)),
      RangeError,
      /append: key\.shape must be \[1, 2, 1, 4\], got \[1, 2, 1, 5\]/,
    ],
    [
      "value of another length",
      () => cache.append(x(1), x(2)),
      RangeError,
      /append: value\.shape must be \[1, 2, 1, 4\], got \[1, 2, 2, 4\]/,
    ],
    [
      "rank",
      () => cache.append(zeros(4), zeros(4)),
      RangeError,
      /append: key\.shape must be \[1, 2, newTokens, 4\], got \[4\]/,
    ],
    [
      "float64",
      () => cache.append({ data: new Float64Array(8), shape: [1, 2, 1, 4] } as never, x(1)),
      TypeError,
      /append: key\.data must be a Float32Array/,
    ],
    [
      "query rank",
      () => cache.attend(zeros(2, 1, 4)),
      RangeError,
      /attend: query must have shape \[batch, heads, length, headDim\], got \[2, 1, 4\]/,
    ],
    [
      "query width",
      () => cache.attend(x(1, 5)),
      RangeError,
      /attend: headDim of key must be that of query, got 4 and 5/,
    ],
    [
      "heads",
      () => cache.attend(zeros(1, 3, 1, 4)),
      RangeError,
      /attend: heads of query must be a multiple of those of key, got 3 and 2/,
    ],
    [
      "more queries than tokens",
      () => cache.attend(x(7)),
      RangeError,
      /attend: query must have at most as many rows as the cache has tokens, got 7 and 6/,
    ],
    [
      "an option of attention alone",
      () => cache.attend(x(1), { layout: "blhd" } as never),
      TypeError,
      /attend: unknown option "layout"/,
    ],
    [
      "mask of another length",
      () => ring.attend(x(1), { attnMask: zeros(5) }),
      RangeError,
      /attnMask must broadcast to .* = \[1, 2, 1, 4\], got \[5\]/,
    ],
    [
      "truncate up",
      () => cache.truncate(7),
      RangeError,
      /truncate: length must be an integer from 0 to 6, got 7/,
    ],
    [
      "truncate to text",
      () => cache.truncate("2" as never),
      TypeError,
      /truncate: length must be an integer .* got "2"/,
    ],
    ["append after dispose", () => gone.append(x(1), x(1)), TypeError, /append: the cache was disposed/],
    ["attend after dispose", () => gone.attend(x(1)), TypeError, /attend: the cache was disposed/],
    ["truncate after dispose", () => gone.reset(), TypeError, /truncate: the cache was disposed/],
  ]);

  it("and what failed has changed nothing", () => {
    expect([cache.length, ring.length, cache.capacity, ring.capacity]).toEqual([6, 5, 8, 6]);
    cache.append(x(2), x(2));
    expect(cache.attend(x(8)).data).toEqual(x(8).data);
    expect(gone.disposed && gone.memoryBytes === 0).toBe(true);
    gone.dispose();
  });

  it("a growth beyond the memory loses nothing", () => {
    const small = createRuntimeSync({ maxMemoryBytes: 2 ** 20 });
    const growing = small.keyValueCache({ numKvHeads: 1, headDim: 64 });
    const one = randomTensor([1, 1, 1, 64], 1);
    expect(() => {
      for (;;) growing.append(one, one);
    }).toThrow(/append: needs \d+ bytes of Wasm memory, more than maxMemoryBytes = 1048576/);
    const { length } = growing;
    const { data } = growing.attend(one);
    data.forEach((value, i) => {
      expect(value).toBeCloseTo(one.data[i] as number, 4);
    });
    growing.truncate(length - 1);
    growing.append(one, one);
    expect(growing.length).toBe(length);
  });

  it("the free function uses the default runtime", () => {
    using own = keyValueCache({ numKvHeads: 1, headDim: 2 });
    own.append(zeros(1, 1, 1, 2), { data: Float32Array.of(3, 4), shape: [1, 1, 1, 2] });
    expect(own.attend(zeros(1, 1, 1, 2)).data).toEqual(Float32Array.of(3, 4));
  });
});

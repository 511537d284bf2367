import { expect, it } from "vitest";
import type {
  AttentionOptions,
  CacheAttentionOptions,
  KeyValueCacheOptions,
  Runtime,
  Tensor,
} from "../src/index.ts";
import { halfTensor } from "./reference/float16.ts";
import {
  describeVariants,
  expectAttention,
  freshRuntime,
  littered,
  randomTensor,
  type TestTensor,
  zeros,
} from "./support.ts";

/** Tokens [begin, end) of a tensor whose length is the given axis. */
function tokens({ data, shape }: Tensor, axis: number, begin: number, end: number): TestTensor {
  const outer = shape.slice(0, axis).reduce((product, n) => product * n, 1);
  const inner = shape.slice(axis + 1).reduce((product, n) => product * n, 1);
  const length = shape[axis] as number;
  const part = new Float32Array(outer * (end - begin) * inner);
  for (let o = 0; o < outer; o++) {
    const row = o * length * inner;
    part.set(data.subarray(row + begin * inner, row + end * inner), o * (end - begin) * inner);
  }
  return { data: part, shape: shape.with(axis, end - begin) };
}

interface Sizes {
  batch?: number;
  heads: number;
  kvHeads: number;
  d: number;
  dv?: number;
  length?: number;
}

interface Case {
  sizes: Sizes;
  cache?: Partial<KeyValueCacheOptions>;
  attend?: CacheAttentionOptions;
}

/** The operands of all tokens, by the layout. */
function draw({ sizes, cache = {} }: Case): [Tensor, Tensor, Tensor] {
  const { batch = 1, heads, kvHeads, d, dv = d, length = 17 } = sizes;
  const shape = (h: number, width: number) =>
    cache.layout === "blhd" ? [batch, length, h, width] : [batch, h, length, width];
  return [
    randomTensor(shape(heads, d), 1),
    randomTensor(shape(kvHeads, d), 2),
    randomTensor(shape(kvHeads, dv), 3),
  ] as [Tensor, Tensor, Tensor];
}

/** What one full pass gives, held to the reference. */
function wholePass(runtime: Runtime, c: Case, [q, k, v]: [Tensor, Tensor, Tensor]) {
  const isHalf = c.cache?.dtype === "float16";
  const options: AttentionOptions = {
    isCausal: true,
    windowSize: c.cache?.windowSize,
    layout: c.cache?.layout,
    ...c.attend,
  };
  const [key, value] = isHalf ? [halfTensor(k), halfTensor(v)] : [k, v];
  if ((c.sizes.length ?? 17) <= 17)
    expectAttention(runtime, q, key as TestTensor, value as TestTensor, options);
  return runtime.scaledDotProductAttention(q, key, value, { ...options, returnLse: true });
}

/** The same, token by token or chunk by chunk. */
function expectChunks(runtime: Runtime, c: Case, chunks: readonly number[]): void {
  const [q, k, v] = draw(c);
  const whole = wholePass(runtime, c, [q, k, v]);
  const axis = c.cache?.layout === "blhd" ? 1 : 2;
  const { batch, kvHeads: numKvHeads, d: headDim, dv: valueDim } = c.sizes;
  using cache = runtime.keyValueCache({ batch, numKvHeads, headDim, valueDim, ...c.cache });
  let at = 0;
  for (const chunk of chunks) {
    cache.append(tokens(k, axis, at, at + chunk), tokens(v, axis, at, at + chunk));
    const part = cache.attend(tokens(q, axis, at, at + chunk), { ...c.attend, returnLse: true });
    expect(part.out.data, `tokens ${at}..`).toEqual(tokens(whole.out, axis, at, at + chunk).data);
    expect(part.lse.data, `lse ${at}..`).toEqual(tokens(whole.lse, 2, at, at + chunk).data);
    at += chunk;
    expect(cache.length).toBe(at);
  }
}

const ones = (n: number): number[] => new Array<number>(n).fill(1);
const grouped = { heads: 6, kvHeads: 2, d: 16 };
const plain = { heads: 2, kvHeads: 2, d: 8 };
const window4 = { windowSize: [3, 0] } as const;
const half = { dtype: "float16" } as const;

const cases: [name: string, c: Case][] = [
  ["causal", { sizes: plain }],
  ["preallocated", { sizes: plain, cache: { capacity: 17 } }],
  ["window 4", { sizes: plain, cache: window4 }],
  ["window 4, preallocated", { sizes: plain, cache: { ...window4, capacity: 13 } }],
  ["grouped-query", { sizes: grouped }],
  ["grouped-query, window 4, blhd", { sizes: grouped, cache: { ...window4, layout: "blhd" } }],
  ["batch 2, odd widths", { sizes: { batch: 2, heads: 3, kvHeads: 1, d: 5, dv: 3 } }],
  ["batch 2, blhd", { sizes: { batch: 2, ...grouped }, cache: { layout: "blhd" } }],
  ["float16", { sizes: plain, cache: half }],
  ["float16, grouped-query", { sizes: grouped, cache: half }],
  ["float16, odd widths", { sizes: { heads: 2, kvHeads: 2, d: 7, dv: 9 }, cache: half }],
  ["float16, window 4", { sizes: plain, cache: { ...half, ...window4 } }],
  [
    "float16, window 4, odd widths",
    { sizes: { heads: 4, kvHeads: 2, d: 5 }, cache: { ...half, ...window4 } },
  ],
  ["float16, blhd, batch 2", { sizes: { batch: 2, ...plain }, cache: { ...half, layout: "blhd" } }],
  ["ALiBi in a ring", { sizes: plain, cache: window4, attend: { alibiSlopes: randomTensor([2], 9) } }],
  [
    "everything in a ring of halves",
    {
      sizes: { batch: 2, ...grouped },
      cache: { ...window4, ...half },
      attend: {
        alibiSlopes: randomTensor([2, 6], 9),
        sinks: randomTensor([6], 8),
        softcap: 2,
        scale: 0.7,
        windowSize: [2, -1],
      },
    },
  ],
];

const long: [name: string, c: Case][] = [
  ["no window", { sizes: { ...plain, length: 500 } }],
  ["float16", { sizes: { heads: 3, kvHeads: 1, d: 16, length: 500 }, cache: half }],
  ["window 250", { sizes: { ...plain, length: 500 }, cache: { windowSize: [249, 0] } }],
  [
    "window 250 in a ring that cuts blocks of keys",
    { sizes: { ...plain, length: 500 }, cache: { windowSize: [249, 0], capacity: 350 } },
  ],
  [
    "the same in float16",
    { sizes: { ...grouped, length: 500 }, cache: { windowSize: [249, 0], capacity: 350, ...half } },
  ],
  [
    "the same in float16, ungrouped",
    { sizes: { ...plain, length: 500 }, cache: { windowSize: [249, 0], capacity: 353, ...half } },
  ],
];

describeVariants("KeyValueCache", (runtime, variant) => {
  it.each(cases)("17 tokens: one pass, 17 decodes, chunks 5, 1, 7, 4, bit for bit: %s", (_, c) => {
    for (const chunks of [[17], ones(17), [5, 1, 7, 4], [2, 3, 4, 8]]) {
      if (c.cache?.capacity === 13 && chunks[0] === 17) continue; // more than it takes at once
      expectChunks(runtime, c, chunks);
    }
  });

  it.each(long)("500 tokens in chunks on both sides of the few-queries path, bit for bit: %s", (_, c) => {
    expectChunks(runtime, c, [100, 4, 99, 1, 3, 90, 2, 100, 5, 96]);
    expectChunks(runtime, c, [90, ...ones(320), 90]);
  });

  it("finds memory as it may be, full of NaN, and gives what it gives elsewhere", () => {
    for (const [, c] of cases.slice(0, 12)) expectChunks(littered(variant, Number.NaN), c, [5, 1, 7, 4]);
  });

  it("truncate and append again: the tail is as if it had never been", () => {
    for (const options of [{}, half, window4, { ...window4, ...half }]) {
      const c: Case = { sizes: plain, cache: options };
      const [q, k, v] = draw(c);
      const whole = wholePass(runtime, c, [q, k, v]);
      using cache = runtime.keyValueCache({ numKvHeads: 2, headDim: 8, ...options });
      for (const [at, guesses, kept] of [
        [0, 6, 4],
        [4, 5, 1],
        [5, 12, 12],
      ] as const) {
        const [key, value] = [k, v].map((x) => tokens(x, 2, at, at + guesses)) as [TestTensor, TestTensor];
        for (const { data } of [key, value]) {
          for (const head of [0, 1]) data.fill(7, (head * guesses + kept) * 8, (head + 1) * guesses * 8);
        }
        cache.append(key, value);
        const out = cache.attend(tokens(q, 2, at, at + guesses));
        expect(tokens(out, 2, 0, kept).data).toEqual(tokens(whole.out, 2, at, at + kept).data);
        cache.truncate(at + kept);
      }
    }
  });

  it("a ring takes back as many tokens as were last appended at once, and refuses more", () => {
    using cache = runtime.keyValueCache({ numKvHeads: 1, headDim: 4, windowSize: [7, 0] });
    const some = (n: number) => randomTensor([1, 1, n, 4], n);
    cache.append(some(30), some(30));
    for (let i = 0; i < 40; i++) cache.append(some(5), some(5));
    cache.truncate(225);
    const stored = cache.length;
    for (let i = 0; i < 40; i++) cache.append(some(1), some(1));
    expect(() => cache.truncate(stored)).toThrow(
      /truncate: the window of position 225 must be stored, from key 218 on, got keys from \d+ on/,
    );
    expect(cache.length).toBe(265);
    expect(() => cache.attend(some(40))).toThrow(
      /attend: the window of the first of \d+ queries must be stored, from key 218/,
    );
    cache.attend(some(1));
    cache.reset();
    expect(cache.length).toBe(0);
    cache.append(some(2), some(2));
    expect(cache.attend(some(2)).data.every(Number.isFinite)).toBe(true);
  });

  it("a mask spans the keys that the queries may see", () => {
    const [q, k, v] = draw({ sizes: plain });
    const keep = Uint8Array.from({ length: 17 }, (_, j) => (j % 3 ? 1 : 0));
    const bias = randomTensor([17], 5);
    for (const options of [{}, half, window4] as Partial<KeyValueCacheOptions>[]) {
      const isHalf = options.dtype === "float16";
      const { windowSize } = options;
      using cache = runtime.keyValueCache({ numKvHeads: 2, headDim: 8, ...options });
      for (let i = 0; i < 17; i++) cache.append(tokens(k, 2, i, i + 1), tokens(v, 2, i, i + 1));
      const first = windowSize ? 17 - 4 : 0;
      for (const mask of [
        { data: keep, shape: [17] },
        { data: bias.data, shape: [17] },
      ]) {
        const want = runtime.scaledDotProductAttention(
          tokens(q, 2, 16, 17),
          isHalf ? halfTensor(k) : k,
          isHalf ? halfTensor(v) : v,
          { attnMask: mask, isCausal: true, queryOffset: 16, windowSize },
        );
        const attnMask = { data: mask.data.slice(first), shape: [17 - first] } as typeof mask;
        expect(cache.attend(tokens(q, 2, 16, 17), { attnMask }).data).toEqual(want.data);
      }
    }
  });

  it("resident in, resident out; out is returned; tensors of the runtime are appended without staging", () => {
    using cache = runtime.keyValueCache({ numKvHeads: 1, headDim: 4 });
    using key = runtime.tensor([1, 1, 3, 4], randomTensor([1, 1, 3, 4], 1).data);
    cache.append(key, key);
    using query = runtime.tensor([1, 1, 2, 4], randomTensor([1, 1, 2, 4], 2).data);
    using out = cache.attend(query);
    expect(out.disposed).toBe(false);
    const plainQuery = { data: query.data.slice(), shape: [1, 1, 2, 4] };
    expect(cache.attend(plainQuery).data).toEqual(out.data.slice());
    const target = zeros(1, 1, 2, 4);
    expect(cache.attend(query, { out: target })).toBe(target);
    expect(target.data).toEqual(out.data.slice());
    const { lse } = cache.attend(query, { returnLse: true, out });
    expect(lse.disposed).toBe(false);
    lse.dispose();
  });

  it("one cached prefix serves a batch of queries", () => {
    using cache = runtime.keyValueCache({ numKvHeads: 1, headDim: 4 });
    const k = randomTensor([1, 1, 9, 4], 1);
    const q = randomTensor([3, 2, 1, 4], 2);
    cache.append(k, k);
    expect(cache.attend(q).data).toEqual(runtime.scaledDotProductAttention(q, k, k).data);
  });

  it("memory: half of it for float16, doubled as it grows, flat over thousands of steps, given back", () => {
    const own = freshRuntime(variant);
    const sizes = { numKvHeads: 2, headDim: 8 };
    using preallocated = own.keyValueCache({ ...sizes, capacity: 100 });
    using halves = own.keyValueCache({ ...sizes, capacity: 100, ...half });
    expect([preallocated.memoryBytes, halves.memoryBytes]).toEqual([12_800, 6_400]);
    const growing = own.keyValueCache(sizes);
    const ring = own.keyValueCache({ ...sizes, windowSize: [31, 0], ...half });
    const one = randomTensor([1, 2, 1, 8], 1);
    const query = own.tensor([1, 4, 1, 8], randomTensor([1, 4, 1, 8], 2).data);
    const out = own.tensor([1, 4, 1, 8]);
    const capacities = new Set<number>();
    for (let i = 0; i < 200; i++) {
      growing.append(one, one);
      ring.append(one, one);
      capacities.add(growing.capacity);
      ring.attend(query, { out });
    }
    expect([...capacities]).toEqual([16, 32, 64, 128, 256]);
    expect(ring.capacity).toBe(32);
    const before = own.info().memoryBytes;
    for (let i = 0; i < 3000; i++) {
      ring.append(one, one);
      ring.attend(query, { out });
    }
    expect(ring.length).toBe(3200);
    expect(ring.memoryBytes).toBe(2 * 2 * 32 * 8 * 2);
    for (let i = 0; i < 200; i++) {
      using cache = own.keyValueCache({ ...sizes, capacity: 2000 });
      cache.append(one, one);
    }
    for (const cache of [growing, ring]) cache.dispose();
    expect(own.info().memoryBytes - before).toBeLessThan(300_000);
    const after = own.info().memoryBytes;
    for (let i = 0; i < 100; i++) own.keyValueCache({ ...sizes, capacity: 2000 }).dispose();
    expect(own.info().memoryBytes).toBe(after);
  });

  it("appends nothing, and attends with no query, at any length", () => {
    using cache = runtime.keyValueCache({ numKvHeads: 1, headDim: 4 });
    cache.append(zeros(1, 1, 0, 4), zeros(1, 1, 0, 4));
    expect(cache.attend(zeros(1, 2, 0, 4))).toEqual(zeros(1, 2, 0, 4));
    expect([cache.length, cache.capacity, cache.memoryBytes]).toEqual([0, 0, 0]);
  });
});

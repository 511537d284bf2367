import { describe, expect, it } from "vitest";
import { type AttentionBackwardInputs, createRuntimeSync, type Runtime } from "../src/index.ts";
import { expectSame, itRefuses, randomTensor, type TestTensor, type WrongCall, zeros } from "./support.ts";

const runtime = createRuntimeSync({ variant: "simd" });

const [batch, heads, lq, lk, d, dv] = [2, 3, 4, 5, 6, 7];
const inputs = {
  dOut: zeros(batch, heads, lq, dv),
  query: zeros(batch, heads, lq, d),
  key: zeros(batch, heads, lk, d),
  value: zeros(batch, heads, lk, dv),
  out: zeros(batch, heads, lq, dv),
  lse: zeros(batch, heads, lq),
};
/** The call that is right but for what is given. */
const differentiate = (wrong: object): unknown =>
  runtime.scaledDotProductAttentionBackward({ ...inputs, ...wrong } as AttentionBackwardInputs);

const missing = Object.keys(inputs).map(
  (name): WrongCall => [
    `no ${name}`,
    () => differentiate({ [name]: undefined }),
    TypeError,
    new RegExp(
      name === "lse"
        ? "lse must be that of the forward, which gives it with returnLse: true, got lse undefined"
        : `^scaledDotProductAttentionBackward: ${name} must be a tensor \\{ data, shape \\}, got undefined`,
    ),
  ],
);

const results: WrongCall[] = [
  [
    "out of the width of the key",
    () => differentiate({ out: zeros(batch, heads, lq, d) }),
    RangeError,
    /out\.shape must be \[2, 3, 4, 7\] as the forward has it, got \[2, 3, 4, 6\]/,
  ],
  [
    "out of another layout",
    () => differentiate({ out: zeros(batch, lq, heads, dv) }),
    RangeError,
    /out\.shape must be \[2, 3, 4, 7\] as the forward has it, got \[2, 4, 3, 7\]/,
  ],
  [
    "dOut of another batch",
    () => differentiate({ dOut: zeros(1, heads, lq, dv) }),
    RangeError,
    /dOut\.shape must be \[2, 3, 4, 7\] as the forward has it, got \[1, 3, 4, 7\]/,
  ],
  [
    "lse with an axis too many",
    () => differentiate({ lse: zeros(batch, heads, lq, 1) }),
    RangeError,
    /lse\.shape must be \[2, 3, 4\] as the forward has it, got \[2, 3, 4, 1\]/,
  ],
  [
    "dLse of the keys",
    () => differentiate({ dLse: zeros(batch, heads, lk) }),
    RangeError,
    /dLse\.shape must be \[2, 3, 4\] as the forward has it, got \[2, 3, 5\]/,
  ],
  [
    "dLse that is none",
    () => differentiate({ dLse: 1 }),
    TypeError,
    /dLse must be a tensor \{ data, shape \}, got 1/,
  ],
  [
    "dOut in float64",
    () => differentiate({ dOut: { data: new Float64Array(168), shape: inputs.dOut.shape } }),
    TypeError,
    /dOut\.data must be a Float32Array, got a Float64Array; float64 is not computed/,
  ],
  [
    "lse that does not fill its shape",
    () => differentiate({ lse: { data: new Float32Array(23), shape: inputs.lse.shape } }),
    RangeError,
    /lse\.data must hold 24 elements for shape \[2, 3, 4\], got 23/,
  ],
];

const options: WrongCall[] = [
  [
    "no inputs",
    () => runtime.scaledDotProductAttentionBackward(undefined as never),
    TypeError,
    /scaledDotProductAttentionBackward: .* must be an object, got undefined/,
  ],
  [
    "an unknown option",
    () => differentiate({ returnDBias: true }),
    TypeError,
    /scaledDotProductAttentionBackward: unknown option "returnDBias"; this version knows dOut, dLse, query, /,
  ],
  [
    "a forward that returned no lse",
    () => differentiate({ returnLse: false }),
    TypeError,
    /scaledDotProductAttentionBackward: lse must be that of the forward.* returnLse false/,
  ],
  [
    "returnDSinks without sinks",
    () => differentiate({ returnDSinks: true }),
    TypeError,
    /returnDSinks needs sinks, got undefined/,
  ],
  [
    "returnDSinks that is no flag",
    () => differentiate({ sinks: zeros(heads), returnDSinks: 1 }),
    TypeError,
    /returnDSinks must be true or false, got 1/,
  ],
  [
    "returnDAttnMask without a mask",
    () => differentiate({ returnDAttnMask: true }),
    TypeError,
    /returnDAttnMask needs an additive attnMask \(Float32Array\), got none/,
  ],
  [
    "returnDAttnMask of a boolean mask",
    () => differentiate({ attnMask: { data: new Uint8Array(lk), shape: [lk] }, returnDAttnMask: true }),
    TypeError,
    /returnDAttnMask needs an additive attnMask \(Float32Array\), got a boolean one/,
  ],
  [
    "dropoutP without a seed",
    () => differentiate({ dropoutP: 0.5 }),
    TypeError,
    /scaledDotProductAttentionBackward: .*dropoutP.* seed/,
  ],
  [
    "a mask that does not fit",
    () => differentiate({ attnMask: zeros(lq, lq) }),
    RangeError,
    /attnMask must broadcast to .* = \[2, 3, 4, 5\], got \[4, 4\]/,
  ],
  [
    "key of another width",
    () => differentiate({ key: zeros(batch, heads, lk, d + 1) }),
    RangeError,
    /scaledDotProductAttentionBackward: headDim of key must be that of query, got 7 and 6/,
  ],
];

it("takes the options of the forward as they are", () => {
  const options = { isCausal: true, returnLse: true, dropoutP: 0.2, seed: 4 } as const;
  const [query, key, value] = [inputs.query, inputs.key, inputs.value];
  const forward = runtime.scaledDotProductAttention(query, key, value, options);
  const given = { dOut: inputs.dOut, query, key, value, ...forward, ...options };
  expect(runtime.scaledDotProductAttentionBackward(given).dQuery.shape).toEqual(query.shape);
});

describe("scaledDotProductAttentionBackward refuses", () => {
  itRefuses(runtime, [...missing, ...results, ...options]);

  it.each([...Object.keys(inputs), "dLse"])("%s that was disposed", (name) => {
    const { shape } = name === "dLse" ? inputs.lse : inputs[name as keyof typeof inputs];
    const gone = runtime.tensor(shape);
    gone.dispose();
    const call = () => differentiate({ [name]: gone });
    expect(call).toThrow(TypeError);
    expect(call).toThrow(`${name} is a resident tensor of shape [${shape.join(", ")}] that was disposed`);
  });
});

type Four = [TestTensor, TestTensor, TestTensor, TestTensor];

/** The largest tensor, in pages of memory, that there is room for. */
function freePages(own: Runtime, most: number): number {
  for (let pages = most; pages > 0; pages--) {
    try {
      own.tensor([pages * 2 ** 14]).dispose();
      return pages;
    } catch {}
  }
  return 0;
}

describe("scaledDotProductAttentionBackward where memory is exhausted", () => {
  const shape = [1, 2, 128, 64]; // 64 KiB, a page of memory: each operand and each gradient
  const [query, key, value, dOut] = [1, 2, 3, 4].map((seed) => randomTensor(shape, seed)) as Four;
  const forward = runtime.scaledDotProductAttention(query, key, value, { returnLse: true });
  const given = { dOut, query, key, value, ...forward };
  /** Three queries and keys of one head, with results that are not theirs, which does not matter here. */
  const small = Object.fromEntries(
    Object.entries(given).map(([name, { data }]) => {
      const smallShape = name === "lse" ? [3] : [3, 64];
      return [name, { data: data.slice(0, name === "lse" ? 3 : 192), shape: smallShape }];
    }),
  ) as unknown as AttentionBackwardInputs;
  const wanted = runtime.scaledDotProductAttentionBackward(given);
  const wantedSmall = runtime.scaledDotProductAttentionBackward(small);

  // Operands take the first 6 pages; from there the limit falls on each gradient in turn, and then on the scratch.
  it("loses nothing, at whichever allocation it happens, and the next call is right", () => {
    const failedAt = new Set<number>();
    for (let pages = 6; ; pages++) {
      const own = createRuntimeSync({ variant: "simd", maxMemoryBytes: pages * 2 ** 16 });
      const operands = Object.fromEntries(
        Object.entries(given).map(([name, t]) => [name, own.tensor(t.shape, t.data)]),
      ) as unknown as AttentionBackwardInputs;
      const free = freePages(own, pages);
      let gradients: typeof wanted | undefined;
      try {
        gradients = own.scaledDotProductAttentionBackward(operands);
      } catch (error) {
        expect(error).toBeInstanceOf(RangeError);
        expect(String(error)).toMatch(
          /scaledDotProductAttentionBackward: needs \d+ bytes of Wasm memory, more than maxMemoryBytes = \d+/,
        );
      }
      if (gradients) {
        for (const name of ["dQuery", "dKey", "dValue"] as const) expectSame(gradients[name], wanted[name]);
        break;
      }
      failedAt.add(free);
      expect(freePages(own, pages), `free of ${pages} pages`).toBe(free);
      if (free > 2) {
        const { dQuery, dKey, dValue } = own.scaledDotProductAttentionBackward(small);
        expectSame(dQuery, wantedSmall.dQuery);
        expectSame(dKey, wantedSmall.dKey);
        expectSame(dValue, wantedSmall.dValue);
      }
    }
    expect([...failedAt]).toEqual(expect.arrayContaining([0, 1, 2, 3]));
  });
});

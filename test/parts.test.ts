// What is long passes through Wasm memory in parts. Whatever the parts, the bits are those of operands that live there.

import { expect, it, vi } from "vitest";
import type { AttentionOptions, MatmulOptions, ResidentTensor, Runtime, Tensor } from "../src/index.ts";
import { describeVariants, freshRuntime, randomTensor, type TestTensor } from "./support.ts";

type Call = (runtime: Runtime, ...operands: Tensor[]) => Tensor | object;

const tensorsOf = (result: Tensor | object): Tensor[] =>
  "data" in result ? [result as Tensor] : Object.values(result);

/** As toEqual, but in a thousandth of the time. */
const expectBits = (a: Float32Array, b: Float32Array) => expect(Buffer.compare(bytes(a), bytes(b))).toBe(0);

const bytes = ({ buffer, byteOffset, byteLength }: Float32Array) =>
  Buffer.from(buffer, byteOffset, byteLength);

/** The call on copies gives the bits of the call on resident tensors. */
function expectSameBits(runtime: Runtime, operands: readonly TestTensor[], call: Call): void {
  const residents = operands.map(({ shape, data }) => runtime.tensor(shape, data));
  const expected = tensorsOf(call(runtime, ...residents));
  const copied = tensorsOf(call(runtime, ...(operands as Tensor[])));
  expect(copied.map(({ shape }) => shape)).toEqual(expected.map(({ shape }) => shape));
  copied.forEach(({ data }, i) => {
    expectBits(data, expected[i]!.data);
  });
  for (const tensor of [...residents, ...expected]) (tensor as Partial<ResidentTensor>).dispose?.();
}

let seed = 0;
const random = (...shape: number[]): TestTensor => randomTensor(shape, ++seed);

const slopes = (...shape: number[]) => {
  const { data } = random(...shape);
  return { data: data.map(Math.abs), shape };
};

const attentions: [name: string, q: number[], k: number[], options: AttentionOptions][] = [
  ["many heads", [3, 8, 100, 64], [3, 8, 90, 64], {}],
  ["grouped-query heads, causal, lse", [3, 8, 100, 64], [3, 2, 100, 64], { isCausal: true, returnLse: true }],
  ["few queries", [2, 8, 1, 128], [2, 4, 600, 128], { returnLse: true }],
  ["layout blhd", [9, 100, 4, 64], [9, 90, 2, 64], { layout: "blhd", returnLse: true }],
  ["one batch entry in layout blhd", [1, 500, 8, 64], [1, 500, 8, 64], { layout: "blhd" }],
  ["keys of one batch entry for all", [5, 8, 100, 64], [1, 8, 90, 64], {}],
  ["queries of one batch entry for all", [1, 8, 100, 64], [5, 8, 90, 64], { returnLse: true }],
  [
    "kvLengths and offsets",
    [4, 6, 99, 64],
    [4, 6, 99, 64],
    { kvLengths: Int32Array.of(99, 0, 7, 50), queryOffset: Int32Array.of(0, 3, -5, 9), isCausal: true },
  ],
  ["a mask of its own for every head", [3, 8, 70, 64], [3, 8, 90, 64], { attnMask: random(3, 8, 70, 90) }],
  [
    "slopes of every batch entry, sinks",
    [3, 8, 100, 64],
    [3, 4, 90, 64],
    { alibiSlopes: slopes(3, 8), sinks: random(8), returnLse: true },
  ],
  ["dropout", [3, 8, 100, 64], [3, 8, 90, 64], { dropoutP: 0.3, seed: 5 }],
];

const products: [name: string, a: number[], b: number[], options: MatmulOptions][] = [
  ["a vector", [1500], [1500, 700], {}],
  ["few rows", [7, 1500], [1500, 700], { alpha: 0.5 }],
  ["few rows, b transposed", [7, 300], [3001, 300], { transposeB: true }],
  ["many rows", [70, 1500], [1500, 300], {}],
  ["many rows, b transposed", [70, 300], [3001, 300], { transposeB: true }],
  ["both transposed", [300, 70], [3001, 300], { transposeA: true, transposeB: true }],
  ["a transposed", [1500, 70], [1500, 300], { transposeA: true }],
  ["c, alpha and beta", [70, 1500], [1500, 300], { alpha: 2, c: random(300), beta: -0.5 }],
  ["a stack of matrices by one", [3, 5, 1500], [1500, 300], {}],
  ["a stack of matrices by as many", [3, 50, 500], [3, 500, 300], {}],
];

const LONG = [700, 1001];

describeVariants("in parts", (runtime, variant) => {
  it.each(attentions)("attention: %s", (_, q, k, options) => {
    expectSameBits(runtime, [random(...q), random(...k), random(...k)], (own, ...[query, key, value]) =>
      own.scaledDotProductAttention(query!, key!, value!, options),
    );
  });

  it.each(products)("matmul: %s", (_, a, b, options) => {
    expectSameBits(runtime, [random(...a), random(...b)], (own, ...[x, y]) => own.matmul(x!, y!, options));
  });

  it.each<[string, number[][], Call]>([
    ["softmax", [LONG], (own, x) => own.softmax(x!)],
    ["softmax of columns", [[8, 300, 101]], (own, x) => own.softmax(x!, { axis: 1 })],
    ["softmax of the first axis", [LONG], (own, x) => own.softmax(x!, { axis: 0 })],
    ["logSoftmax", [LONG], (own, x) => own.logSoftmax(x!)],
    ["logSumExp", [LONG], (own, x) => own.logSumExp(x!)],
    ["logSumExp of columns", [[8, 300, 101]], (own, x) => own.logSumExp(x!, { axis: 1 })],
    ["logSumExp over no axis", [LONG], (own, x) => own.logSumExp(x!, { axis: [] })],
    ["logSumExp over axes apart", [[8, 300, 101]], (own, x) => own.logSumExp(x!, { axis: [0, 2] })],
    ["softmaxBackward", [LONG, LONG], (own, d, y) => own.softmaxBackward(d!, y!)],
    [
      "logSoftmaxBackward of columns",
      [
        [8, 300, 101],
        [8, 300, 101],
      ],
      (own, d, y) => own.logSoftmaxBackward(d!, y!, { axis: 1 }),
    ],
    ["exp", [LONG], (own, x) => own.exp(x!)],
    ["scale", [LONG], (own, x) => own.scale(x!, 1.5)],
    ["relu", [LONG], (own, x) => own.relu(x!)],
    ["gelu", [LONG], (own, x) => own.gelu(x!)],
    ["add", [LONG, LONG], (own, x, y) => own.add(x!, y!)],
    ["rmsNorm", [LONG], (own, x) => own.rmsNorm(x!)],
    [
      "layerNorm",
      [LONG, [1001], [1001]],
      (own, x, weight, bias) => ({ ...own.layerNorm(x!, { weight, bias, returnStats: true }) }),
    ],
  ])("%s", (_, shapes, call) => {
    expectSameBits(
      runtime,
      shapes.map((shape) => random(...shape)),
      call,
    );
  });

  it("writes to an `out` that is an operand, or shares memory with one, as if that had been read before", () => {
    const shape = [1, 40, 64, 64];
    const size = 40 * 64 * 64;
    for (const buffer of [new ArrayBuffer(5 * size * 4), new SharedArrayBuffer(5 * size * 4)]) {
      const { data } = random(5 * size);
      const all = new Float32Array(buffer);
      const at = (from: number) => ({ data: new Float32Array(buffer, from * 4, size), shape });
      const [q, k, v] = [at(size), at(2 * size), at(3 * size)] as const;
      for (const place of [q, k, at(0.5 * size), at(1.25 * size), at(2.75 * size), at(3.5 * size)]) {
        all.set(data);
        const expected = runtime.scaledDotProductAttention(q, k, v).data;
        runtime.scaledDotProductAttention(q, k, v, { out: place });
        expectBits(place.data, expected);

        all.set(data);
        const exponentials = runtime.softmax(k).data;
        runtime.softmax(k, { out: place });
        expectBits(place.data, exponentials);
      }
    }
  });

  it("an operand that is resident stays where it is among others that are copied", () => {
    const [q, k, v] = [random(2, 8, 100, 64), random(2, 8, 300, 64), random(2, 8, 300, 64)];
    const expected = runtime.scaledDotProductAttention(q, k, v).data;
    const resident = { k: runtime.tensor(k.shape, k.data), out: runtime.tensor(q.shape) };
    expectBits(runtime.scaledDotProductAttention(q, resident.k, v).data, expected);
    expectBits(runtime.scaledDotProductAttention(q, k, v, { out: resident.out }).data, expected);
    for (const tensor of Object.values(resident)) tensor.dispose();
  });

  it.each<[string, number[][], Call]>([
    [
      "attention",
      [
        [1, 32, 1, 128],
        [1, 32, 512, 128],
        [1, 32, 512, 128],
      ],
      (own, q, k, v) => own.scaledDotProductAttention(q!, k!, v!),
    ],
    [
      "attention in layout blhd",
      [
        [32, 1, 4, 64],
        [32, 64, 4, 64],
        [32, 64, 4, 64],
      ],
      (own, q, k, v) => own.scaledDotProductAttention(q!, k!, v!, { layout: "blhd" }),
    ],
    ["softmax", [[2000, 1001]], (own, x) => own.softmax(x!)],
    ["softmax of columns", [[20, 100, 1001]], (own, x) => own.softmax(x!, { axis: 1 })],
    ["logSumExp", [[2000, 1001]], (own, x) => own.logSumExp(x!)],
    [
      "logSoftmaxBackward",
      [
        [2000, 1001],
        [2000, 1001],
      ],
      (own, d, y) => own.logSoftmaxBackward(d!, y!),
    ],
    ["exp", [[2000, 1001]], (own, x) => own.exp(x!)],
    [
      "add",
      [
        [2000, 1001],
        [2000, 1001],
      ],
      (own, x, y) => own.add(x!, y!),
    ],
    ["layerNorm", [[2000, 1001]], (own, x) => own.layerNorm(x!)],
    [
      "matmul",
      [
        [1, 2000],
        [2000, 1001],
      ],
      (own, a, b) => own.matmul(a!, b!),
    ],
    [
      "matmul with b transposed",
      [
        [1, 1001],
        [2000, 1001],
      ],
      (own, a, b) => own.matmul(a!, b!, { transposeB: true }),
    ],
  ])("%s takes room for a part alone", (_, shapes, call) => {
    const own = freshRuntime(variant);
    call(own, ...shapes.map((shape) => random(...shape))); // 4 MB or more each
    expect(own.info().memoryBytes).toBeLessThan(2 * 2 ** 20);
  });

  it("writes what belongs at address 0 as if it began there, too", () => {
    // Statistics whose part begins as many bytes before their room as that is from 0.
    for (const rows of [504, 505, 506]) {
      const own = freshRuntime(variant);
      own.tensor([1 + rows * 16]);
      const x = random(400_000, 8);
      const { mean } = own.layerNorm(x, { returnStats: true });
      const expected = own.matmul(x, { data: new Float32Array(8).fill(1 / 8), shape: [8] });
      for (let i = 0; i < 400_000; i += 997) expect(mean.data[i]).toBeCloseTo(expected.data[i]!, 5);
    }
  });

  it("reads arrays of a class of the caller's without calling it", () => {
    class Vector extends Float32Array {
      static calls = 0;
      constructor(...args: [number | ArrayBuffer]) {
        super(...(args as [number]));
        Vector.calls++;
      }
    }
    const x = { data: new Vector(300_000).fill(1), shape: [300, 1000] };
    expect(runtime.exp(x).data[299_999]).toBeCloseTo(Math.E, 6);
    expect(runtime.softmax(x).data[299_999]).toBeCloseTo(1e-3, 9);
    expect(Vector.calls).toBe(1);
  });

  it("gives the same where the engine has no memory without zeros", () => {
    const x = random(...LONG);
    const expected = runtime.softmax(x).data;
    for (const other of [
      undefined,
      { allocUnsafeSlow: () => new Uint8Array(new ArrayBuffer(2 ** 23), 8, 4) },
    ]) {
      vi.stubGlobal("Buffer", other);
      const { data } = runtime.softmax(x);
      vi.unstubAllGlobals();
      expectBits(data, expected);
    }
  });

  it("matmul: into b, into c, resident, with alpha 0, over NaN in c", () => {
    const [a, b, c] = [random(300, 700), random(700, 700), random(300, 700)];
    const expected = freshRuntime(variant).matmul(a, b).data;
    const square = { data: b.data.slice(), shape: b.shape };
    expectBits(runtime.matmul(square, square, { out: square }).data, runtime.matmul(b, b).data);
    const sum = runtime.matmul(a, b, { c, beta: 2 }).data;
    const into = { data: c.data.slice(), shape: c.shape };
    expectBits(runtime.matmul(a, b, { c: into, beta: 2, out: into }).data, sum);
    const resident = runtime.tensor(c.shape);
    expectBits(runtime.matmul(a, b, { out: resident }).data, expected);
    resident.dispose();
    expect(runtime.matmul(a, b, { alpha: 0 }).data.every((x) => x === 0)).toBe(true);
    expectBits(
      runtime.matmul(a, b, { c: { data: c.data.fill(NaN), shape: c.shape }, beta: 0 }).data,
      expected,
    );
  });

  it("a resident operand beside a plain one, either way", () => {
    const [x, y] = [random(...LONG), random(...LONG)];
    const [sum, gradient] = [runtime.add(x, y).data, runtime.softmaxBackward(x, y).data];
    const [rx, ry] = [x, y].map(({ shape, data }) => runtime.tensor(shape, data)) as [
      ResidentTensor,
      ResidentTensor,
    ];
    for (const [p, q] of [
      [rx, y],
      [x, ry],
    ] as const) {
      expectBits(runtime.add(p, q).data, sum);
      expectBits(runtime.softmaxBackward(p, q).data, gradient);
    }
    for (const tensor of [rx, ry]) tensor.dispose();
  });

  it("long queries to a cache, in either layout and type", () => {
    for (const layout of ["bhld", "blhd"] as const) {
      for (const dtype of ["float32", "float16"] as const) {
        const shape = layout === "bhld" ? [3, 4, 300, 64] : [3, 300, 4, 64];
        const [q, k, v] = [random(...shape), random(...shape), random(...shape)];
        using cache = runtime.keyValueCache({ numKvHeads: 4, headDim: 64, batch: 3, layout, dtype });
        cache.append(k, v);
        using resident = runtime.tensor(shape, q.data);
        expectBits(cache.attend(q).data, cache.attend(resident).data);
      }
    }
  });
});

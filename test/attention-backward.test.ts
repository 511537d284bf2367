import fc from "fast-check";
import { expect, it } from "vitest";
import type { AttentionOptions } from "../src/index.ts";
import { fullProblem, operands, runs } from "./arbitraries.ts";
import { seenByAny, swapAxes } from "./attention-rows.ts";
import { expectGradients, gradientsOf, solveGradients, upstream } from "./gradients.ts";
import type { RefTensor } from "./reference/rounding.ts";
import {
  blockSizes,
  booleanMask,
  describeVariants,
  expectClose,
  expectSame,
  freshRuntime,
  littered,
  qkv,
  randomTensor,
  type TestTensor,
} from "./support.ts";

describeVariants("scaledDotProductAttentionBackward", (runtime, variant) => {
  it("equals the reference, for any shape and options", () => {
    fc.assert(
      fc.property(fullProblem(), fc.boolean(), (problem, hasDLse) => {
        const { shape, options, seed } = problem;
        const tensors = operands(shape, seed);
        const { dOut, dLse } = upstream(runtime, tensors, options, seed);
        expectGradients(runtime, tensors, options, hasDLse ? { dOut, dLse: dLse as TestTensor } : { dOut });
      }),
      runs(variant === "debug" ? 60 : 120),
    );
  });

  it("goes on over the edges of blocks and panels", () => {
    const { BLOCK_Q, BACKWARD_K } = blockSizes(variant);
    const cases: [number, number, AttentionOptions][] = [
      [BLOCK_Q + 1, BACKWARD_K + 1, {}],
      [2 * BLOCK_Q, 2 * BACKWARD_K, { isCausal: true }],
      [BLOCK_Q - 1, 2 * BACKWARD_K + 7, { windowSize: [70, 0], causalAlignment: "bottomRight" }],
      [130, 130, { windowSize: [3, 5] }],
    ];
    for (const [lq, lk, options] of cases) {
      const tensors = qkv(1, 2, 1, lq, lk, 12, 20);
      expectGradients(runtime, tensors, options, upstream(runtime, tensors, options, 3));
    }
  });

  it("is exact enough where the scores are large", () => {
    for (const [factor, shift] of [
      [20, 0],
      [1, 1e4],
      [1, -1e4],
      [100, 300],
    ] as const) {
      const tensors = qkv(1, 2, 1, 20, 150, 16, 16);
      tensors[0].data.set(tensors[0].data.map((x) => x * factor));
      const attnMask = { data: new Float32Array(20).fill(shift), shape: [20, 1] };
      for (const sinks of [undefined, { data: Float32Array.of(shift, shift + 1), shape: [2] }]) {
        const options = { attnMask, sinks };
        expectGradients(runtime, tensors, options, upstream(runtime, tensors, options, 4));
      }
    }
  });

  it("gives sinks of any size their gradient from the rows there are", () => {
    for (const lq of [1, 3, 9]) {
      const tensors = qkv(1, 2, 1, lq, 10, 4, 4);
      for (const sink of [-1e4, -100, 90, 100, 1e4, 3e38, -Infinity]) {
        const options = { sinks: { data: Float32Array.of(sink, 0.5), shape: [2] } };
        expectGradients(runtime, tensors, options, upstream(runtime, tensors, options, 5));
      }
    }
  });

  it("gives masked keys and dead rows exactly 0, and takes nothing from them", () => {
    fc.assert(
      fc.property(fullProblem(), fc.constantFrom(NaN, Infinity, -Infinity), (problem, bad) => {
        const { options: all, shape, seed } = problem;
        const { sinks: _, ...options } = all; // a sink makes a row without keys a constant, but not a dead one
        const [q, k, v] = operands(shape, seed);
        const { dOut, dLse } = upstream(runtime, [q, k, v], options, seed) as {
          dOut: TestTensor;
          dLse: TestTensor;
        };
        const { lse } = runtime.scaledDotProductAttention(q, k, v, { ...options, returnLse: true });
        const clean = gradientsOf(runtime, [q, k, v], options, { dOut, dLse });
        const { d, dv } = shape;
        const unseen = seenByAny({ ...problem, options }).flatMap((isSeen, row) => (isSeen ? [] : [row]));
        const dead = [...lse.data.keys()].filter((row) => lse.data[row] === -Infinity);
        const fill = (t: TestTensor, row: number, width: number) =>
          t.data.fill(bad, row * width, (row + 1) * width);
        for (const row of unseen) {
          fill(k, row, d);
          fill(v, row, dv);
        }
        for (const row of dead) {
          fill(q, row, d);
          fill(dOut, row, dv);
          dLse.data[row] = bad;
        }
        const got = gradientsOf(runtime, [q, k, v], options, { dOut, dLse });
        for (const name of Object.keys(clean)) {
          expectSame(got[name] as TestTensor, clean[name] as TestTensor, `${name} ${JSON.stringify(shape)}`);
        }
        const zero = (t: TestTensor | undefined, row: number, width: number) =>
          expect(t?.data.subarray(row * width, (row + 1) * width).every((x) => x === 0)).toBe(true);
        for (const row of unseen) {
          zero(got.dKey, row, d);
          zero(got.dValue, row, dv);
        }
        for (const row of dead) zero(got.dQuery, row, d);
      }),
      runs(120),
    );
  });

  it("keeps a bad value behind a partial mask from the rows that do not see it", () => {
    const [lq, lk] = [70, 150];
    const tensors = qkv(1, 1, 1, lq, lk, 12, 9);
    const attnMask = booleanMask([lq, lk], 5);
    const hidden = 17; // key 17 is seen by odd rows alone, so even rows must not change
    for (let i = 0; i < lq; i++) attnMask.data[i * lk + hidden] = i % 2;
    const up = upstream(runtime, tensors, { attnMask }, 6);
    const clean = gradientsOf(runtime, tensors, { attnMask }, up);
    for (const [operand, width] of [
      [1, 12],
      [2, 9],
    ] as const) {
      for (const bad of [NaN, Infinity]) {
        const poisoned = tensors.map(({ data, shape }) => ({ data: data.slice(), shape })) as typeof tensors;
        (poisoned[operand] as TestTensor).data.fill(bad, hidden * width, (hidden + 1) * width);
        const got = gradientsOf(runtime, poisoned, { attnMask }, up);
        for (let i = 0; i < lq; i++) {
          const row = (t: TestTensor | undefined) => t?.data.subarray(i * 12, (i + 1) * 12);
          if (i % 2 === 0) expect(row(got.dQuery), `dQuery of row ${i}`).toEqual(row(clean.dQuery));
          else expect(row(got.dQuery)?.some(Number.isNaN), `dQuery of row ${i}`).toBe(true);
        }
      }
    }
  });

  it("sums over what is shared: batch entries, heads of a group, axes of a mask", () => {
    const [q] = qkv(3, 4, 2, 9, 30, 8, 8);
    const [, k, v] = qkv(1, 4, 2, 9, 30, 8, 8);
    for (const shape of [[30], [9, 1], [1], [4, 1, 30], [3, 1, 9, 30], [1, 4, 1, 1]]) {
      const options = { attnMask: randomTensor(shape, 3) };
      expectGradients(runtime, [q, k, v], options, upstream(runtime, [q, k, v], options, 3));
    }
    const [one, keys, values] = [
      qkv(1, 4, 2, 9, 30, 8, 8)[0],
      ...qkv(3, 4, 2, 9, 30, 8, 8).slice(1),
    ] as const;
    const tensors = [one, keys, values] as [TestTensor, TestTensor, TestTensor];
    expectGradients(runtime, tensors, {}, upstream(runtime, tensors, {}, 3));
  });

  it("of parts of the keys, with out and lse of the whole, adds up to the whole", () => {
    const tensors = qkv(1, 2, 2, 20, 60, 8, 8);
    const [query, k, v] = tensors;
    const up = upstream(runtime, tensors, {}, 2);
    const { out, lse } = runtime.scaledDotProductAttention(query, k, v, { returnLse: true });
    const { want, tolerances } = solveGradients("parts", tensors, {}, { dOut: up.dOut }).solved;
    const [wantQuery, wantKey, wantValue] = want as [RefTensor, RefTensor, RefTensor];
    const [tolQuery, tolKey, tolValue] = tolerances as [number, number, number];
    const dQuery = new Float32Array(query.data.length);
    for (const [from, to] of [
      [0, 7],
      [7, 60],
    ] as const) {
      const isPart = (_: number, i: number) => i % 480 >= from * 8 && i % 480 < to * 8; // 60 rows of 8 a head
      const shape = [1, 2, to - from, 8];
      const part = ({ data }: RefTensor): RefTensor => ({ data: Array.from(data).filter(isPart), shape });
      const key = { data: k.data.filter(isPart), shape };
      const value = { data: v.data.filter(isPart), shape };
      const inputs = { dOut: up.dOut, query, key, value, out, lse };
      const got = runtime.scaledDotProductAttentionBackward(inputs);
      expectClose(got.dKey, part(wantKey), tolKey, `dKey from ${from}`);
      expectClose(got.dValue, part(wantValue), tolValue, `dValue from ${from}`);
      got.dQuery.data.forEach((x, i) => {
        dQuery[i] = (dQuery[i] as number) + x;
      });
    }
    expectClose({ data: dQuery, shape: query.shape }, wantQuery, tolQuery, "dQuery");
  });

  it("in layout blhd is the transpose of bhld, bit for bit, and memory's contents do not matter", () => {
    fc.assert(
      fc.property(fullProblem(), ({ shape, options, seed }) => {
        const tensors = operands(shape, seed);
        const { dOut, dLse } = upstream(runtime, tensors, options, seed) as {
          dOut: TestTensor;
          dLse: TestTensor;
        };
        const want = gradientsOf(runtime, tensors, options, { dOut, dLse });
        const swapped = tensors.map(swapAxes) as typeof tensors;
        const up = { dOut: swapAxes(dOut), dLse };
        const got = gradientsOf(littered(variant, NaN), swapped, { ...options, layout: "blhd" }, up);
        for (const name of Object.keys(want)) {
          const gradient = got[name] as TestTensor;
          const isOperand = ["dQuery", "dKey", "dValue"].includes(name);
          expectSame(isOperand ? swapAxes(gradient) : gradient, want[name] as TestTensor, name);
        }
      }),
      runs(40),
    );
  });

  it("takes empty sizes", () => {
    for (const [b, h, lq, lk, dv] of [
      [0, 2, 3, 4, 4],
      [1, 0, 3, 4, 4],
      [1, 2, 0, 4, 4],
      [1, 2, 3, 0, 4],
      [1, 2, 3, 4, 0],
    ] as const) {
      const tensors = qkv(b, h, h, lq, lk, 4, dv);
      const got = gradientsOf(runtime, tensors, {}, upstream(runtime, tensors, {}, 1));
      expect(got.dQuery?.shape).toEqual([b, h, lq, 4]);
      for (const { data } of Object.values(got))
        expect(data.every((x) => (dv === 0 ? Number.isFinite(x) : x === 0))).toBe(true);
    }
  });

  it("of resident tensors is resident, and memory stays flat", () => {
    const own = freshRuntime(variant);
    const [query, key, value] = qkv(1, 2, 2, 40, 40, 16, 16).map((t) =>
      own.tensor(t.shape, t.data),
    ) as never as [
      ReturnType<typeof own.tensor>,
      ReturnType<typeof own.tensor>,
      ReturnType<typeof own.tensor>,
    ];
    const dOut = own.tensor([1, 2, 40, 16], randomTensor([1, 2, 40, 16], 2).data);
    const { out, lse } = own.scaledDotProductAttention(query, key, value, { returnLse: true });
    let bytes = 0;
    for (let step = 0; step < 200; step++) {
      const gradients = own.scaledDotProductAttentionBackward({ dOut, query, key, value, out, lse });
      expect(gradients.dQuery.disposed).toBe(false);
      for (const tensor of [gradients.dQuery, gradients.dKey, gradients.dValue]) tensor.dispose();
      if (step === 0) bytes = own.info().memoryBytes;
    }
    expect(own.info().memoryBytes).toBe(bytes);
  });
});

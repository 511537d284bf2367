import fc from "fast-check";
import { describe, expect, it } from "vitest";
import { fullProblem, operands, runs } from "./arbitraries.ts";
import { philox } from "./reference/dropout.ts";
import { describeVariants, expectAttention, expectSame, itRefuses, qkv, zeros } from "./support.ts";

describe("philox 4x32-10", () => {
  // The known answers that come with Random123 (kat_vectors).
  it.each([
    [
      [0, 0, 0, 0],
      [0, 0],
      [0x6627e8d5, 0xe169c58d, 0xbc57ac4c, 0x9b00dbd8],
    ],
    [
      [0xffffffff, 0xffffffff, 0xffffffff, 0xffffffff],
      [0xffffffff, 0xffffffff],
      [0x408f276d, 0x41c83b0e, 0xa20bc7c6, 0x6d5451fd],
    ],
    [
      [0x243f6a88, 0x85a308d3, 0x13198a2e, 0x03707344],
      [0xa4093822, 0x299f31d0],
      [0xd16cfe09, 0x94fdcceb, 0x5001e420, 0x24126ea1],
    ],
  ])("of counter %j and key %j", (counter, key, words) => {
    expect(philox(counter, key)).toEqual(words);
  });
});

describeVariants("dropoutP", (runtime) => {
  it("drops what the reference drops, with every other option", () => {
    fc.assert(
      fc.property(fullProblem(), fc.constantFrom(0.1, 0.5, 0.99), (problem, dropoutP) => {
        const [q, k, v] = operands(problem.shape, problem.seed);
        const seed = problem.seed * 8388593; // beyond 32 bits
        expectAttention(runtime, q, k, v, { ...problem.options, dropoutP, seed });
      }),
      runs(40),
    );
  });

  it("drops a share of dropoutP and keeps the mean", () => {
    const length = 256;
    const [q, k] = qkv(1, 4, 4, length, length, 8, 1);
    q.data.fill(0); // weights are all 1 / length
    const eye = zeros(1, 4, length, length);
    for (let h = 0; h < 4; h++) for (let j = 0; j < length; j++) eye.data[(h * length + j) * length + j] = 1;
    for (const dropoutP of [0.1, 0.5]) {
      const { out } = runtime.scaledDotProductAttention(q, k, eye, { dropoutP, seed: 7, returnLse: true });
      const dropped = out.data.filter((w) => w === 0).length / out.data.length;
      const sum = out.data.reduce((total, w) => total + w, 0) / (4 * length);
      // Six standard deviations of a binomial share.
      const deviation = 6 * Math.sqrt((dropoutP * (1 - dropoutP)) / out.data.length);
      expect(Math.abs(dropped - dropoutP)).toBeLessThan(deviation);
      expect(Math.abs(sum - 1)).toBeLessThan(deviation / (1 - dropoutP));
      const kept = 1 / length / (1 - dropoutP);
      expect(out.data.every((w) => w === 0 || Math.abs(w - kept) < 1e-8)).toBe(true);
    }
  });

  it("0 is none whatever the seed, 1 leaves nothing, lse is that without dropout", () => {
    for (const lq of [2, 20]) {
      const tensors = qkv(1, 2, 1, lq, 30, 8, 8);
      const plain = runtime.scaledDotProductAttention(...tensors, { returnLse: true });
      const none = runtime.scaledDotProductAttention(...tensors, { dropoutP: 0, seed: 3, returnLse: true });
      expectSame(none.out, plain.out);
      const all = runtime.scaledDotProductAttention(...tensors, { dropoutP: 1, seed: 3, returnLse: true });
      expect(all.out.data.every((x) => x === 0)).toBe(true);
      expectSame(all.lse, plain.lse);
      const half = { dropoutP: 0.5, returnLse: true } as const;
      const [one, two] = [3, 4].map((seed) =>
        runtime.scaledDotProductAttention(...tensors, { ...half, seed }),
      );
      expectSame(one?.lse as typeof plain.lse, plain.lse);
      expect(one?.out.data).not.toEqual(two?.out.data);
    }
  });

  const x = zeros(1, 1, 2, 4);
  const attend = (options: object) => () => runtime.scaledDotProductAttention(x, x, x, options);
  itRefuses(runtime, [
    ["dropoutP without a seed", attend({ dropoutP: 0.1 }), TypeError, /dropoutP needs a seed.*0\.1/],
    [
      "dropoutP above 1",
      attend({ dropoutP: 1.5, seed: 1 }),
      RangeError,
      /dropoutP must be from 0 to 1, got 1\.5/,
    ],
    ["a negative dropoutP", attend({ dropoutP: -0.5, seed: 1 }), RangeError, /dropoutP must be from 0 to 1/],
    ["dropoutP NaN", attend({ dropoutP: NaN, seed: 1 }), RangeError, /dropoutP.*NaN/],
    [
      "a negative seed",
      attend({ dropoutP: 0.1, seed: -1 }),
      RangeError,
      /seed must be an integer from 0.*-1/,
    ],
    ["a broken seed", attend({ dropoutP: 0.1, seed: 0.5 }), RangeError, /seed.*0\.5/],
    ["a seed beyond 2^53", attend({ dropoutP: 0.1, seed: 2 ** 53 }), RangeError, /seed.*9007199254740992/],
    ["a bigint seed", attend({ dropoutP: 0.1, seed: 1n }), TypeError, /seed must be an integer/],
  ]);
});

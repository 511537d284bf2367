import fc from "fast-check";
import type { AttentionOptions, MaskLike } from "../src/index.ts";
import { booleanMask, qkv, randomTensor } from "./support.ts";

/** Sizes around vector widths, tiles and blocks: a power of two and its neighbours, and primes. */
export const lengths = [1, 3, 4, 5, 7, 8, 9, 31, 63, 65, 97, 129, 257];
const headSizes = [1, 2, 3, 5, 7, 31, 59, 64, 100, 128];

/**
 * Parameters of a property. The same problems every time, so that a failure is found by the change that
 * caused it; FC_SEED=n looks at others, FC_RUNS=n at more.
 */
export const runs = (numRuns: number) => ({
  numRuns: Number(process.env.FC_RUNS ?? numRuns),
  seed: Number(process.env.FC_SEED ?? 20261),
});

export interface AttentionShape {
  batch: number;
  heads: number;
  kvHeads: number;
  lq: number;
  lk: number;
  d: number;
  dv: number;
}

/** An attention problem: small to print, and the numbers follow from the seed. */
export interface AttentionProblem {
  shape: AttentionShape;
  options: AttentionOptions;
  seed: number;
}

/** Multiplications of one problem, kept low enough for a scalar reference to be quick. */
const budget = 60_000;

const attentionShape: fc.Arbitrary<AttentionShape> = fc
  .record({
    batch: fc.constantFrom(1, 1, 2, 4),
    kvHeads: fc.constantFrom(1, 1, 2, 3),
    group: fc.constantFrom(1, 1, 2, 4),
    lq: fc.constantFrom(...lengths),
    lk: fc.constantFrom(...lengths),
    d: fc.constantFrom(...headSizes),
    dv: fc.constantFrom(...headSizes),
  })
  .map(({ batch, kvHeads, group, lq, lk, d, dv }) => {
    const one = lq * lk * (d + dv);
    const few = Math.max(1, Math.floor(budget / one));
    const kv = Math.min(kvHeads, few);
    const heads = kv * Math.min(group, Math.max(1, Math.floor(few / kv)));
    return {
      batch: Math.min(batch, Math.max(1, Math.floor(few / heads))),
      heads,
      kvHeads: kv,
      lq,
      lk,
      d,
      dv,
    };
  })
  .filter(({ lq, lk, d, dv }) => lq * lk * (d + dv) <= 8 * budget);

/** Any of the options together, each often absent; the batch of any length or of the one given. */
export const attentionProblem = (batch?: number): fc.Arbitrary<AttentionProblem> =>
  fc
    .tuple(attentionShape, fc.integer({ min: 1, max: 2 ** 30 }))
    .map(([shape, seed]) => ({ shape: { ...shape, batch: batch ?? shape.batch }, seed }))
    .chain(({ shape, seed }) => attentionOptions(shape).map((options) => ({ shape, options, seed })));

function attentionOptions(shape: AttentionShape): fc.Arbitrary<AttentionOptions> {
  const { batch, lq, lk } = shape;
  const offset = fc.integer({ min: -lq - 1, max: lk + 1 });
  const perBatch = (n: fc.Arbitrary<number>) =>
    fc.array(n, { minLength: batch, maxLength: batch }).map((x) => Int32Array.from(x));
  return fc
    .record({
      // The option is absent once in `freq` times.
      attnMask: fc.option(mask(shape), { nil: undefined, freq: 3 }),
      isCausal: fc.boolean(),
      scale: fc.constantFrom(undefined, undefined, undefined, 0, -0.7, 1, 12),
      position: fc.oneof(
        fc.constant({}),
        fc.record({ causalAlignment: fc.constantFrom("topLeft" as const, "bottomRight" as const) }),
        fc.record({ queryOffset: fc.oneof(offset, perBatch(offset)) }),
      ),
      kvLengths: fc.option(perBatch(fc.integer({ min: 0, max: lk })), { nil: undefined, freq: 2 }),
    })
    .map(({ position, ...options }) => ({ ...options, ...position }));
}

const side = fc.constantFrom(-1, Number.POSITIVE_INFINITY, 0, 1, 3, 17, 300);

/** A problem with any of all options together, those of attentionProblem and the later ones, each often absent. */
export const fullProblem = (): fc.Arbitrary<AttentionProblem> =>
  fc
    .tuple(
      attentionProblem(),
      fc.record({
        windowSize: fc.option(fc.tuple(side, side), { nil: undefined, freq: 2 }),
        softcap: fc.constantFrom(undefined, undefined, 0, 0.5, 2, 30),
        slopes: fc.constantFrom("none", "none", "heads", "batch"),
        hasSinks: fc.boolean(),
        dropoutP: fc.constantFrom(undefined, undefined, 0, 0.2, 0.9),
      }),
    )
    .map(([problem, { slopes, hasSinks, dropoutP, ...others }]) => {
      const { shape, seed } = problem;
      const slopeShape = slopes === "heads" ? [shape.heads] : [shape.batch, shape.heads];
      const later: AttentionOptions = {
        ...others,
        alibiSlopes: slopes === "none" ? undefined : randomTensor(slopeShape, seed + 4),
        sinks: hasSinks ? randomTensor([shape.heads], seed + 5) : undefined,
        ...(dropoutP === undefined ? {} : { dropoutP, seed: seed * 1021 }),
      };
      return { ...problem, options: { ...problem.options, ...later } };
    });

/** A mask of any kind, each of whose axes is there or broadcast. */
function mask({ batch, heads, lq, lk }: AttentionShape): fc.Arbitrary<MaskLike> {
  const full = [batch, heads, lq, lk];
  return fc
    .record({
      rank: fc.integer({ min: 1, max: 4 }),
      broadcast: fc.tuple(...full.map(() => fc.boolean())),
      kind: fc.constantFrom("boolean", "additive", "large"),
      live: fc.constantFrom(0.02, 0.5, 0.98),
      seed: fc.integer({ min: 1, max: 2 ** 30 }),
    })
    .map(({ rank, broadcast, kind, live, seed }) => {
      const shape = full.map((n, axis) => (broadcast[axis] ? 1 : n)).slice(4 - rank);
      const attends = booleanMask(shape, seed, live);
      if (kind === "boolean") return attends;
      const bias = randomTensor(shape, seed).data;
      const hidden = kind === "large" ? -1e4 : -Infinity;
      return { data: bias.map((x, i) => (attends.data[i] ? x : hidden)), shape };
    });
}

/** The operands of a problem, for any seed. */
export const operands = ({ batch, heads, kvHeads, lq, lk, d, dv }: AttentionShape, seed: number) =>
  qkv(batch, heads, kvHeads, lq, lk, d, dv, seed);

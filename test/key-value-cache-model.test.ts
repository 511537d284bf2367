import fc from "fast-check";
import { expect, it } from "vitest";
import type { AttentionOptions, KeyValueCache, Runtime } from "../src/index.ts";
import { runs } from "./arbitraries.ts";
import { roundHalf } from "./reference/float16.ts";
import type { RefTensor } from "./reference/rounding.ts";
import { describeVariants, expectClose, randomTensor, solveAttention, type TestTensor } from "./support.ts";

const step = fc.oneof(
  { weight: 4, arbitrary: fc.record({ do: fc.constant("append" as const), n: fc.nat(9) }) },
  { weight: 4, arbitrary: fc.record({ do: fc.constant("attend" as const), n: fc.nat(7) }) },
  { weight: 2, arbitrary: fc.record({ do: fc.constant("truncate" as const), n: fc.nat(6) }) },
  { weight: 1, arbitrary: fc.record({ do: fc.constant("reset" as const), n: fc.constant(0) }) },
);

const scenario = fc.record({
  batch: fc.constantFrom(1, 2),
  kvHeads: fc.constantFrom(1, 2),
  group: fc.constantFrom(1, 2, 5),
  d: fc.constantFrom(3, 8),
  dv: fc.constantFrom(1, 5, 16),
  left: fc.constantFrom(undefined, 0, 3, 10),
  capacity: fc.constantFrom(undefined, 12, 20),
  dtype: fc.constantFrom("float32" as const, "float16" as const),
  alibi: fc.boolean(),
  isCausal: fc.boolean(),
  steps: fc.array(step, { minLength: 3, maxLength: 14 }),
  seed: fc.integer({ min: 1, max: 1000 }),
});
type Scenario = typeof scenario extends fc.Arbitrary<infer S> ? S : never;

/** The cache as it ought to be: arrays of tokens, and nothing forgotten. */
class Model {
  keys: TestTensor[] = [];
  values: TestTensor[] = [];
  readonly #s: Scenario;

  constructor(s: Scenario) {
    this.#s = s;
  }

  /** [batch, kvHeads, tokens, width] of all tokens, rounded as they are stored. */
  stack(rows: readonly TestTensor[], width: number): TestTensor {
    const { batch, kvHeads, dtype } = this.#s;
    const data = new Float32Array(batch * kvHeads * rows.length * width);
    rows.forEach((row, j) => {
      for (let head = 0; head < batch * kvHeads; head++) {
        data.set(row.data.subarray(head * width, (head + 1) * width), (head * rows.length + j) * width);
      }
    });
    const shape = [batch, kvHeads, rows.length, width];
    return { data: dtype === "float16" ? data.map(roundHalf) : data, shape };
  }
}

/** n tokens, appended to both; a refusal for want of room leaves both as they were. */
function append(cache: KeyValueCache, model: Model, s: Scenario, n: number, seed: number): void {
  const shape = (width: number) => [s.batch, s.kvHeads, 1, width];
  const keys = Array.from({ length: n }, (_, i) => randomTensor(shape(s.d), seed + 2 * i));
  const values = Array.from({ length: n }, (_, i) => randomTensor(shape(s.dv), seed + 2 * i + 1));
  const plain = new Model({ ...s, dtype: "float32" });
  const kept = Math.min(model.keys.length, s.left ?? model.keys.length);
  const call = () => cache.append(plain.stack(keys, s.d), plain.stack(values, s.dv));
  if (s.capacity !== undefined && kept + n > s.capacity) {
    expect(call).toThrow(/append: capacity \d+ must hold the new tokens/);
    return;
  }
  call();
  model.keys.push(...keys);
  model.values.push(...values);
}

function attend(cache: KeyValueCache, model: Model, s: Scenario, lq: number, seed: number): void {
  const heads = s.kvHeads * s.group;
  const query = randomTensor([s.batch, heads, lq, s.d], seed);
  const alibiSlopes = s.alibi ? randomTensor([heads], seed + 1) : undefined;
  const { isCausal } = s;
  const got = cache.attend(query, { isCausal, alibiSlopes, returnLse: true });
  const options: AttentionOptions = {
    isCausal,
    alibiSlopes,
    queryOffset: model.keys.length - lq,
    windowSize: s.left === undefined ? undefined : [s.left, -1],
  };
  const [key, value] = [model.stack(model.keys, s.d), model.stack(model.values, s.dv)];
  const { want, tolerances } = solveAttention(JSON.stringify({ ...s, lq }), [query, key, value], options);
  expectClose(got.out, want[0] as RefTensor, tolerances[0] as number, "out");
  expectClose(got.lse, want[1] as RefTensor, tolerances[1] as number, "lse");
}

function play(runtime: Runtime, s: Scenario): void {
  using cache = runtime.keyValueCache({
    batch: s.batch,
    numKvHeads: s.kvHeads,
    headDim: s.d,
    valueDim: s.dv,
    capacity: s.capacity,
    windowSize: s.left === undefined ? undefined : [s.left, 0],
    dtype: s.dtype,
  });
  const model = new Model(s);
  let newest = 0; // tokens since the last truncation, of the last append: what may be asked for and taken back
  s.steps.forEach(({ do: what, n }, i) => {
    const seed = s.seed + 1000 * i;
    if (what === "append") {
      const before = model.keys.length;
      append(cache, model, s, n, seed);
      if (n > 0 && model.keys.length > before) newest = n;
    } else if (what === "attend") {
      attend(cache, model, s, Math.min(n, newest), seed);
    } else {
      const drop = what === "reset" ? model.keys.length : Math.min(n, newest);
      if (what === "reset") cache.reset();
      else cache.truncate(model.keys.length - drop);
      for (const rows of [model.keys, model.values]) rows.splice(rows.length - drop);
      newest -= Math.min(drop, newest);
    }
    expect(cache.length).toBe(model.keys.length);
  });
}

describeVariants("KeyValueCache against arrays of tokens", (runtime, variant) => {
  it("any sequence of append, attend, truncate and reset", () => {
    const property = fc.property(scenario, (s) => play(runtime, s));
    fc.assert(property, runs(variant === "debug" ? 60 : 150));
  });
});

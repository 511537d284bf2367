import { it } from "vitest";
import type { Runtime } from "../src/index.ts";
import { fromHalf, roundHalf } from "./reference/float16.ts";
import { describeVariants, expectSame, randomTensor, unavailable, zeros } from "./support.ts";

const patterns = Float32Array.from({ length: 65536 }, (_, pattern) => fromHalf(pattern));
const engineHasFloat16 = "setFloat16" in DataView.prototype;
const finite = patterns.filter(Number.isFinite);

/**
 * Through a cache and back: the value of the one key that counts, of `keys` in all, seen by `lq` queries. Where few of the
 * halves are subnormal they are read in place, else, or where one is Infinity or NaN, widened.
 */
function throughValues(
  runtime: Runtime,
  values: Float32Array,
  keys: number,
  lq: number,
  counts = 0,
): Float32Array {
  using cache = runtime.keyValueCache({
    numKvHeads: 1,
    headDim: 8,
    valueDim: values.length,
    dtype: "float16",
  });
  const value = zeros(1, 1, keys, values.length);
  value.data.set(values, counts * values.length);
  cache.append(zeros(1, 1, keys, 8), value);
  for (let i = keys; i < lq; i++) cache.append(zeros(1, 1, 1, 8), zeros(1, 1, 1, values.length));
  const bias = new Float32Array(cache.length).fill(-1000);
  bias[counts] = 0;
  const attnMask = { data: bias, shape: [cache.length] };
  const { data } = cache.attend(zeros(1, 1, lq, 8), { attnMask, isCausal: false });
  return data.slice(0, values.length);
}

/** The same by the scores, which log-sum-exp over one of 16 keys gives back. */
function throughKeys(runtime: Runtime, values: Float32Array): Float32Array {
  const batch = Math.ceil(values.length / 16);
  using cache = runtime.keyValueCache({
    batch,
    numKvHeads: 1,
    headDim: 8,
    valueDim: 16,
    dtype: "float16",
  });
  const key = zeros(batch, 1, 16, 8);
  values.forEach((value, i) => {
    key.data[8 * i] = value;
  });
  cache.append(key, zeros(batch, 1, 16, 16));
  const query = zeros(batch, 1, 1, 8);
  for (let b = 0; b < batch; b++) query.data[8 * b] = 1;
  const found = new Float32Array(16 * batch);
  for (let j = 0; j < 16; j++) {
    const keep = Uint8Array.from({ length: 16 }, (_, i) => (i === j ? 1 : 0));
    const options = { attnMask: { data: keep, shape: [16] }, scale: 1, returnLse: true } as const;
    cache.attend(query, options).lse.data.forEach((lse, b) => {
      found[16 * b + j] = lse;
    });
  }
  return found.subarray(0, values.length);
}

/** Numbers whose rounding is hard, of both signs. */
function hardToRound(): Float32Array {
  const bits = new Uint32Array(1);
  const float = new Float32Array(bits.buffer);
  const next = (x: number, by: number): number => {
    float[0] = x;
    bits[0] = (bits[0] as number) + by;
    return float[0] as number;
  };
  const positive = patterns.subarray(0, 0x7c00);
  const ties = Array.from(positive, (x, i) => (x + (positive[i + 1] ?? 65536)) / 2);
  const beside = ties.flatMap((x) => [next(x, 1), next(x, -1)]);
  const edges = [0, 2 ** -149, 2 ** -126, 2 ** -25, 65519.99609375, 65520, 65536, 1e5, 3.4e38, Infinity];
  const scattered = Array.from({ length: 20_000 }, (_, i) => next(0, 1 + Math.imul(i, 107_101)));
  const all = [...ties, ...beside, ...edges, ...scattered];
  return Float32Array.from([...all, ...all.map((x) => -x)]);
}

describeVariants("float16", (runtime) => {
  it("widens each of the 65536 patterns exactly, by every way through the kernels", () => {
    expectValues(throughValues(runtime, patterns, 1, 1), withoutSign(patterns));
    expectValues(throughValues(runtime, patterns, 1, 5), withoutSign(patterns));
    expectValues(throughValues(runtime, finite, 1, 1), withoutSign(finite));
    expectValues(throughValues(runtime, finite, 4, 1), withoutSign(finite));
    expectValues(throughValues(runtime, finite, 20, 1), withoutSign(finite));
    expectValues(throughValues(runtime, finite, 17, 1, 16), withoutSign(finite));
    expectValues(throughKeys(runtime, finite), withoutSign(finite));
    const ordered = patterns.filter((x) => x < Infinity); // with -Infinity, without NaN
    expectValues(throughKeys(runtime, ordered), withoutSign(ordered));
  });

  it("narrows to nearest even, keeps subnormals and NaN, and overflows to Infinity", () => {
    const x = hardToRound();
    const want = withoutSign(Float32Array.from(x, roundHalf));
    const got = throughValues(runtime, x, 1, 1);
    expectValues(got, want);
    expectValues(throughValues(runtime, Float32Array.of(NaN, 1, 2), 1, 1), Float32Array.of(NaN, 1, 2));
  });

  const narrowsAsEngine = () => {
    const half = new DataView(new ArrayBuffer(2)) as DataView & {
      setFloat16(at: number, x: number): void;
      getFloat16(at: number): number;
    };
    const x = randomTensor([4096], 3).data.map((value, i) => value * 10 ** ((i % 14) - 9));
    const want = x.map((value) => {
      half.setFloat16(0, value);
      return half.getFloat16(0);
    });
    expectValues(throughValues(runtime, x, 1, 1), withoutSign(want));
  };
  if (engineHasFloat16) it("narrows as the engine does", narrowsAsEngine);
});

/** Bit for bit; toEqual would be long in saying how so many numbers differ. */
function expectValues(got: Float32Array, want: Float32Array): void {
  expectSame({ data: got, shape: [got.length] }, { data: want, shape: [want.length] });
}

/** A sum that begins with 0 gives no -0. */
function withoutSign(x: Float32Array): Float32Array {
  return x.map((value) => value + 0);
}

if (!engineHasFloat16) unavailable(`Node ${process.version} has no float16 of its own`);

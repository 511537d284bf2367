/** Uniform numbers in [0, 1), the same for the same seed everywhere (mulberry32). */
export function uniform(seed: number): () => number {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/** Standard normal numbers (Box-Muller), rounded to float32. */
export function normal(seed: number): () => number {
  const next = uniform(seed);
  return () => Math.fround(Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next()));
}

/** A float32 tensor of the library. */
export interface TestTensor {
  data: Float32Array;
  shape: number[];
}

/** A tensor of standard normal numbers. */
export function randomTensor(shape: readonly number[], seed: number): TestTensor {
  const next = normal(seed);
  const size = shape.reduce((product, n) => product * n, 1);
  return { data: Float32Array.from({ length: size }, next), shape: [...shape] };
}

/** Query, key and value of [batch, heads, lq, d], [batch, kvHeads, lk, d], [batch, kvHeads, lk, dv]. */
export const qkv = (
  b: number,
  h: number,
  hKv: number,
  lq: number,
  lk: number,
  d: number,
  dv: number,
  seed = 1,
) =>
  [
    randomTensor([b, h, lq, d], seed),
    randomTensor([b, hKv, lk, d], seed + 1),
    randomTensor([b, hKv, lk, dv], seed + 2),
  ] as [TestTensor, TestTensor, TestTensor];

/** A mask that lets a share of the keys through. */
export const booleanMask = (shape: number[], seed: number, share = 0.6) => {
  const next = uniform(seed);
  const size = shape.reduce((product, n) => product * n, 1);
  return { data: Uint8Array.from({ length: size }, () => (next() < share ? 1 : 0)), shape };
};

/** A mask that adds normal numbers and removes three keys in ten. */
export const additiveMask = (shape: number[], seed: number): TestTensor => {
  const mask = randomTensor(shape, seed);
  const next = uniform(seed + 1);
  return { data: mask.data.map((x) => (next() < 0.3 ? -Infinity : x)), shape };
};

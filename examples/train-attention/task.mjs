// The task: say a sequence of tokens backwards. Where to look does not follow from the tokens, so the model has to learn
// it with its queries and keys.

/** @typedef {{ tokens: Uint8Array, targets: Uint8Array }} Batch tokens[b * length + i], and what is wanted of each */

/**
 * Uniform numbers in [0, 1), the same for the same seed everywhere (mulberry32).
 * @param {number} seed
 * @returns {() => number}
 */
export function uniform(seed) {
  let state = seed | 0;
  return () => {
    state = (state + 0x6d2b79f5) | 0;
    let t = Math.imul(state ^ (state >>> 15), 1 | state);
    t = (t + Math.imul(t ^ (t >>> 7), 61 | t)) ^ t;
    return ((t ^ (t >>> 14)) >>> 0) / 2 ** 32;
  };
}

/**
 * Standard normal numbers (Box-Muller).
 * @param {() => number} next
 * @returns {() => number}
 */
export function normal(next) {
  return () => Math.sqrt(-2 * Math.log(1 - next())) * Math.cos(2 * Math.PI * next());
}

/**
 * Random sequences, and the same backwards.
 * @param {() => number} next
 * @param {{ batch: number, length: number, vocabulary: number }} sizes
 * @returns {Batch}
 */
export function drawBatch(next, { batch, length, vocabulary }) {
  const tokens = Uint8Array.from({ length: batch * length }, () => Math.floor(next() * vocabulary));
  const targets = new Uint8Array(tokens.length);
  for (let b = 0; b < batch; b++) {
    targets.set(tokens.subarray(b * length, (b + 1) * length).toReversed(), b * length);
  }
  return { tokens, targets };
}

// Writes what src/wasm-text.ts reads: binaries as text inside JavaScript.

/**
 * The text of rank 0, 1, ..., by the two constants of src/wasm-text.ts.
 * @param {string} alphabet
 * @param {number} singles
 * @returns {string[]}
 */
export function textsByRank(alphabet, singles) {
  const characters = [...alphabet];
  const pairs = characters.slice(singles).flatMap((lead) => characters.map((second) => lead + second));
  return [...characters.slice(0, singles), ...pairs];
}

/**
 * The 256 byte values, the most frequent first.
 * @param {Uint8Array[]} modules
 * @returns {number[]}
 */
export function orderByFrequency(modules) {
  const counts = new Array(256).fill(0);
  for (const bytes of modules) for (const byte of bytes) counts[byte]++;
  return [...counts.keys()].sort((a, b) => counts[b] - counts[a]);
}

/**
 * The text of a binary.
 * @param {Uint8Array} bytes
 * @param {number[]} order byte values by rank
 * @param {string[]} texts by rank
 */
export function encodeModule(bytes, order, texts) {
  /** @type {string[]} */
  const textOf = [];
  order.forEach((byte, rank) => {
    textOf[byte] = /** @type {string} */ (texts[rank]);
  });
  return Array.from(bytes, (byte) => textOf[byte]).join("");
}

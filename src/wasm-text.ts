// Bytes of a Wasm module as text inside JavaScript, a byte a character or two. Compressed, it is 2 % (gzip) to 5 %
// (brotli) larger than the bytes are; base64, in which a run of bytes looks the same only at the same place modulo 3, is
// 1.4 and 2.2 times them.
//
// The byte of rank r among the 256, the most frequent first, is ALPHABET[r] where r < SINGLES, and otherwise
// ALPHABET[SINGLES + q] ALPHABET[m], with r - SINGLES = q * ALPHABET.length + m. scripts/wasm-text.mjs writes it.

/**
 * Printable ASCII without what means something to a string (quotes, backslash, $ of templates), to HTML or a URL around
 * the script (<, >, &, %, #), or to tools that strip or fill in text (space, / and * of comments, { and } of templates).
 */
export const ALPHABET = "!()+,-.0123456789:;=?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz|~";

/** Ranks of one character. The three characters left over begin those of two. */
export const SINGLES = ALPHABET.length - 3;

/**
 * The `length` bytes of `text`; `order` is base64 of the 256 byte values by rank.
 * @throws Error if the text is not what was written.
 */
export function decodeModule(order: string, text: string, length: number): Uint8Array {
  const byRank = atob(order);
  const bytes = new Uint8Array(length);
  const places = new Uint8Array(128).fill(255); // of a character in ALPHABET
  for (let i = 0; i < ALPHABET.length; i++) places[ALPHABET.charCodeAt(i)] = i;
  let decoded = 0;
  let i = 0;
  for (; i < text.length && decoded < length; i++) {
    let rank = places[text.charCodeAt(i)] ?? 255;
    if (rank >= SINGLES) {
      const second = places[text.charCodeAt(++i)] ?? 255;
      rank = SINGLES + (rank - SINGLES) * ALPHABET.length + second;
    }
    if (rank > 255) break;
    bytes[decoded++] = byRank.charCodeAt(rank);
  }
  if (decoded < length || i !== text.length) {
    throw new Error(
      "wasm-attention: the text of its WebAssembly module was changed on the way here, by a build or a proxy",
    );
  }
  return bytes;
}

// Bytes of a Wasm module as text inside JavaScript, a byte a character or two: half of what base64 takes once it is
// compressed. Base64 spreads a byte over characters by its place modulo 3, so that what repeats is not seen to.
//
// The byte of rank r among the 256, the most frequent first, is ALPHABET[r] where r < SINGLES, and otherwise
// ALPHABET[SINGLES + q] ALPHABET[m], with r - SINGLES = q * ALPHABET.length + m.

/** Printable ASCII but what has a meaning in a string of JavaScript or in HTML. */
export const ALPHABET =
  " !#%&()*+,-./0123456789:;=>?@ABCDEFGHIJKLMNOPQRSTUVWXYZ[]^_abcdefghijklmnopqrstuvwxyz{|}~";

/** Ranks of one character. The two characters left over begin those of two. */
export const SINGLES = ALPHABET.length - 2;

/** The bytes of `text`; `order` is base64 of the 256 byte values by rank. scripts/build.mjs writes both. */
export function decodeModule(order: string, text: string): Uint8Array {
  const byRank = atob(order);
  const places = new Uint8Array(128);
  for (let i = 0; i < ALPHABET.length; i++) places[ALPHABET.charCodeAt(i)] = i;
  const bytes = new Uint8Array(text.length);
  let length = 0;
  for (let i = 0; i < text.length; i++) {
    let rank = places[text.charCodeAt(i)] as number;
    if (rank >= SINGLES) {
      rank = SINGLES + (rank - SINGLES) * ALPHABET.length + (places[text.charCodeAt(++i)] as number);
    }
    bytes[length++] = byRank.charCodeAt(rank);
  }
  return bytes.slice(0, length);
}

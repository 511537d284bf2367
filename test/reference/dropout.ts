/** High and low 32 bits of the product of two 32-bit numbers, by halves of one of them: every step is exact. */
function multiply(a: number, b: number): [high: number, low: number] {
  const carry = Math.floor(((a % 2 ** 16) * b) / 2 ** 16);
  return [Math.floor((Math.floor(a / 2 ** 16) * b + carry) / 2 ** 16), Math.imul(a, b) >>> 0];
}

/** Philox 4x32-10 (Salmon et al. 2011): four random words for a counter of four and a key of two. */
export function philox(counter: readonly number[], key: readonly number[]): number[] {
  let [c0, c1, c2, c3] = counter as [number, number, number, number];
  let [k0, k1] = key as [number, number];
  for (let round = 0; round < 10; round++) {
    const [[high0, low0], [high1, low1]] = [multiply(0xd2511f53, c0), multiply(0xcd9e8d57, c2)];
    [c0, c1, c2, c3] = [(high1 ^ c1 ^ k0) >>> 0, low1, (high0 ^ c3 ^ k1) >>> 0, low0];
    k0 = (k0 + 0x9e3779b9) >>> 0;
    k1 = (k1 + 0xbb67ae85) >>> 0;
  }
  return [c0, c1, c2, c3];
}

/** The factor on the weight of query i and key j: 0 where it is dropped. */
export function dropout(
  { dropoutP = 0, seed = 0 }: { dropoutP?: number | undefined; seed?: number | undefined },
  head: number,
  i: number,
): (j: number) => number {
  if (dropoutP === 0) return () => 1;
  const key = [seed % 2 ** 32, Math.floor(seed / 2 ** 32)];
  return (j) => {
    const word = philox([Math.floor(j / 4), i, head, 0], key)[j % 4] as number;
    return dropoutP === 1 || word < Math.round(dropoutP * 2 ** 32) ? 0 : 1 / (1 - dropoutP);
  };
}

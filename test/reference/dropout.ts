/** Philox 4x32-10 (Salmon et al. 2011): four random words for a counter of four and a key of two. */
export function philox(counter: readonly number[], key: readonly number[]): number[] {
  let [c0, c1, c2, c3] = counter.map(BigInt) as [bigint, bigint, bigint, bigint];
  let [k0, k1] = key.map(BigInt) as [bigint, bigint];
  const word = 0xffffffffn;
  for (let round = 0; round < 10; round++) {
    const [p0, p1] = [c0 * 0xd2511f53n, c2 * 0xcd9e8d57n];
    [c0, c1, c2, c3] = [(p1 >> 32n) ^ c1 ^ k0, p1 & word, (p0 >> 32n) ^ c3 ^ k1, p0 & word];
    k0 = (k0 + 0x9e3779b9n) & word;
    k1 = (k1 + 0xbb67ae85n) & word;
  }
  return [c0, c1, c2, c3].map(Number);
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

// Embeddings of the original implementation (@energetic-ai/embeddings 0.2.0), to compare with.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Largest difference of any number from the reference that rounding explains. */
export const TOLERANCE = 2e-6;

const ROOT = fileURLToPath(new URL("../../", import.meta.url));

/** @typedef {{ text: string, embedding: number[] }} ReferenceItem */

/**
 * The first reference there is: of the conformance data, or else the copy kept for the tests.
 * @returns {Promise<{ path: string, items: ReferenceItem[] } | undefined>}
 */
export async function findReference() {
  const conformance = process.env.CONFORMANCE_DIR ?? join(ROOT, "../shared/conformance");
  const paths = [
    join(conformance, "sentence-encoder/embeddings.json"),
    join(ROOT, "test/fixtures/sentence-embeddings.json"),
  ];
  for (const path of paths) {
    const json = await readFile(path, "utf8").catch(() => undefined);
    if (json !== undefined) return { path, items: JSON.parse(json).items };
  }
  return undefined;
}

/**
 * @param {ArrayLike<number>} a
 * @param {ArrayLike<number>} b
 * @returns {number} the largest absolute difference; NaN where a number is missing or not a number
 */
export function maxDifference(a, b) {
  let max = a.length === b.length ? 0 : Number.NaN;
  for (let i = 0; i < a.length; i++) max = Math.max(max, Math.abs(Number(a[i]) - Number(b[i])));
  return max;
}

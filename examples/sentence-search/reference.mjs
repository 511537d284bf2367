// Embeddings of the original implementation (@energetic-ai/embeddings 0.2.0), to compare with.

import { readFile } from "node:fs/promises";
import { join } from "node:path";
import { fileURLToPath } from "node:url";

/** Largest difference of any number from the reference that rounding explains. */
export const TOLERANCE = 2e-6;

/** The copy kept for the tests. */
const FIXTURE = fileURLToPath(new URL("../../test/fixtures/sentence-embeddings.json", import.meta.url));

/** @typedef {{ text: string, embedding: number[] }} ReferenceItem */

/**
 * The first reference there is: of the conformance data that CONFORMANCE_DIR names, or else the copy.
 * @returns {Promise<{ path: string, items: ReferenceItem[] } | undefined>}
 */
export async function findReference() {
  const { CONFORMANCE_DIR } = process.env;
  const named = CONFORMANCE_DIR ? [join(CONFORMANCE_DIR, "sentence-encoder/embeddings.json")] : [];
  for (const path of [...named, FIXTURE]) {
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

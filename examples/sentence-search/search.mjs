// Search is attention with one query: the dot product of the question with every text, and its softmax.

/** @import { Operations } from "wasm-attention" */

/**
 * `similarity` is the cosine of the angle between question and text, `share` what of all attention the text gets.
 * @typedef {{ text: string, similarity: number, share: number }} Match
 */

/** Factor on the similarities under the softmax, which are too close to one another to be told apart without. */
const SHARPNESS = 20;

/**
 * @param {Operations} runtime a runtime of wasm-attention, or the package itself
 * @param {readonly string[]} texts
 * @param {readonly Float32Array[]} embeddings of the texts, of length 1
 * @returns {(question: Float32Array, count: number) => Match[]} the best matches of an embedding, best first
 */
export function createSearch(runtime, texts, embeddings) {
  const width = embeddings[0]?.length ?? 0;
  const matrix = runtime.tensor([texts.length, width]);
  const { data } = matrix;
  embeddings.forEach((embedding, i) => {
    data.set(embedding, i * width);
  });

  return (question, count) => {
    const similarities = runtime.matmul(matrix, { data: question, shape: [width] });
    const shares = runtime.softmax(runtime.scale(similarities, SHARPNESS));
    return texts
      .map((text, i) => ({ text, similarity: similarities.data[i] ?? 0, share: shares.data[i] ?? 0 }))
      .sort((a, b) => b.similarity - a.similarity)
      .slice(0, count);
  };
}

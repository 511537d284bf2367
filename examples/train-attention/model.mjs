// One layer of attention that predicts a token for each position:
//
//   x = tokenEmbedding[token] + positionEmbedding[i]            [batch, length, width]
//   q = x Wq,  k = x Wk,  v = x Wv                              [batch, length, headDim]
//   logits = softmax(scale q kᵀ) v Wo                           [batch, length, vocabulary]
//   loss = mean of -logSoftmax(logits)[target]
//
// Every product, sum, softmax and gradient is the library's. What is left here are the embeddings, which copy and add
// rows.
import {
  add,
  logSoftmax,
  logSoftmaxBackward,
  matmul,
  matmulBackward,
  scaledDotProductAttention,
  scaledDotProductAttentionBackward,
} from "wasm-attention";

/** @import { Tensor } from "wasm-attention" */
/** @import { Batch } from "./task.mjs" */
/** @typedef {"tokens" | "positions" | "query" | "key" | "value" | "out"} WeightName */
/** @typedef {Record<WeightName, Tensor>} Weights */

/** @type {(...shape: number[]) => Tensor} */
const zeros = (...shape) => ({ data: new Float32Array(shape.reduce((size, n) => size * n, 1)), shape });

/**
 * Weights such that x, q, k and v have unit variance at the start: then the variance of q . k is headDim.
 * @param {() => number} next standard normal numbers
 * @param {{ length: number, vocabulary: number, width: number, headDim: number }} sizes
 * @returns {Weights}
 */
export function createWeights(next, { length, vocabulary, width, headDim }) {
  /** @type {(deviation: number, rows: number, columns: number) => Tensor} */
  const draw = (deviation, rows, columns) => ({
    data: Float32Array.from({ length: rows * columns }, () => deviation * next()),
    shape: [rows, columns],
  });
  return {
    tokens: draw(Math.SQRT1_2, vocabulary, width),
    positions: draw(Math.SQRT1_2, length, width),
    query: draw(1 / Math.sqrt(width), width, headDim),
    key: draw(1 / Math.sqrt(width), width, headDim),
    value: draw(1 / Math.sqrt(width), width, headDim),
    out: draw(1 / Math.sqrt(headDim), headDim, vocabulary),
  };
}

/**
 * Row n of a matrix, as a view.
 * @param {Tensor} matrix
 * @param {number} n
 */
function rowOf({ data, shape }, n) {
  const width = /** @type {number} */ (shape[shape.length - 1]);
  return data.subarray(n * width, (n + 1) * width);
}

/**
 * to += from.
 * @param {Float32Array} to
 * @param {Float32Array} from
 */
function addToRow(to, from) {
  for (let i = 0; i < to.length; i++) to[i] = /** @type {number} */ (to[i]) + /** @type {number} */ (from[i]);
}

/**
 * x of a batch of tokens.
 * @param {Weights} weights
 * @param {Uint8Array} tokens
 */
function embed(weights, tokens) {
  const [length, width] = /** @type {[number, number]} */ (weights.positions.shape);
  const x = zeros(tokens.length / length, length, width);
  tokens.forEach((token, n) => {
    const row = rowOf(x, n);
    row.set(rowOf(weights.tokens, token));
    addToRow(row, rowOf(weights.positions, n % length));
  });
  return x;
}

/**
 * The gradients of the embeddings: each row of dx goes to the two rows that x was made of.
 * @param {Weights} weights
 * @param {Uint8Array} tokens
 * @param {Tensor} dx
 */
function embedBackward(weights, tokens, dx) {
  const gradients = { tokens: zeros(...weights.tokens.shape), positions: zeros(...weights.positions.shape) };
  const length = /** @type {number} */ (weights.positions.shape[0]);
  tokens.forEach((token, n) => {
    addToRow(rowOf(gradients.tokens, token), rowOf(dx, n));
    addToRow(rowOf(gradients.positions, n % length), rowOf(dx, n));
  });
  return gradients;
}

/**
 * The loss of a batch, and the gradient of each weight.
 * @param {Weights} weights
 * @param {Batch} batch
 * @param {number} scale
 * @returns {{ loss: number, gradients: Weights }}
 */
export function differentiate(weights, { tokens, targets }, scale) {
  const x = embed(weights, tokens);
  const query = matmul(x, weights.query);
  const key = matmul(x, weights.key);
  const value = matmul(x, weights.value);
  const { out, lse } = scaledDotProductAttention(query, key, value, { scale, returnLse: true });
  const y = logSoftmax(matmul(out, weights.out));

  const dY = zeros(...y.shape); // of the mean of -y[target]
  let loss = 0;
  targets.forEach((target, n) => {
    loss -= /** @type {number} */ (rowOf(y, n)[target]) / targets.length;
    rowOf(dY, n)[target] = -1 / targets.length;
  });

  const output = matmulBackward({ dOut: logSoftmaxBackward(dY, y), a: out, b: weights.out });
  const inputs = { dOut: output.dA, query, key, value, out, lse, scale };
  const { dQuery, dKey, dValue } = scaledDotProductAttentionBackward(inputs);
  const toQuery = matmulBackward({ dOut: dQuery, a: x, b: weights.query });
  const toKey = matmulBackward({ dOut: dKey, a: x, b: weights.key });
  const toValue = matmulBackward({ dOut: dValue, a: x, b: weights.value });
  const dx = toQuery.dA; // x goes three ways, so its gradient is the sum of three
  add(dx, toKey.dA, { out: dx });
  add(dx, toValue.dA, { out: dx });
  const projections = { query: toQuery.dB, key: toKey.dB, value: toValue.dB, out: output.dB };
  return { loss, gradients: { ...embedBackward(weights, tokens, dx), ...projections } };
}

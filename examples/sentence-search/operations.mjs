// The operations of a transformer on matrices [rows, width] that stay in the runtime's memory: products and attention
// read and write them in place, and what is plain JavaScript (rows.mjs) reaches them through `data`, a view.

import { addTo, at } from "./rows.mjs";

/** @import { Operations, ResidentTensor, Tensor } from "wasm-attention" */
/** @import { Dense, Norm, Weight } from "./weights.mjs" */

/** Added to a variance, so that a constant row has a finite normalisation. */
const EPSILON = 1e-6;

export class RowOperations {
  #runtime;
  /**
   * Where every operand is resident the result is too, and has to be given back.
   * @type {ResidentTensor[]}
   */
  #results = [];

  /** @param {Operations} runtime */
  constructor(runtime) {
    this.#runtime = runtime;
  }

  /** Gives back the memory of all results so far. */
  clear() {
    for (const result of this.#results) result.dispose();
    this.#results.length = 0;
  }

  /** @param {number[]} shape */
  zeros(shape) {
    return this.#keep(this.#runtime.tensor(shape));
  }

  /**
   * Row i is twice the embedding of token i plus the signal of position i: the graph adds the embedding to its sum
   * with the signal.
   * @param {number[]} tokens
   * @param {Weight} embeddings [vocabulary, width]
   * @param {Float32Array} positions [positions, width]
   */
  embed(tokens, embeddings, positions) {
    const [, width = 0] = embeddings.shape;
    const out = this.zeros([tokens.length, width]);
    const { data } = out;
    tokens.forEach((token, i) => {
      const to = i * width;
      const from = token * width;
      for (let j = 0; j < width; j++)
        data[to + j] = 2 * at(embeddings.data, from + j) + at(positions, to + j);
    });
    return out;
  }

  /**
   * x kernel + bias
   * @param {ResidentTensor} x
   * @param {Dense<ResidentTensor>} dense
   */
  dense(x, { kernel, bias }) {
    return this.#keep(this.#runtime.matmul(x, kernel, { c: bias }));
  }

  /**
   * @param {ResidentTensor} query [queries, width]
   * @param {ResidentTensor} key [keys, width]
   * @param {ResidentTensor} value [keys, width]
   * @param {number} heads into which the width is split
   */
  attention(query, key, value, heads) {
    const out = this.zeros(query.shape);
    this.#runtime.scaledDotProductAttention(
      splitHeads(query, heads),
      splitHeads(key, heads),
      splitHeads(value, heads),
      { layout: "blhd", out: splitHeads(out, heads) },
    );
    return out;
  }

  /**
   * @param {ResidentTensor} x
   * @param {Norm<ResidentTensor>} norm
   */
  norm(x, { scale, bias }) {
    return this.#keep(this.#runtime.layerNorm(x, { weight: scale, bias, eps: EPSILON }));
  }

  /**
   * @param {ResidentTensor} x
   * @returns {ResidentTensor} the mean of all rows, [1, width]: a product with 1 / rows
   */
  mean(x) {
    const [rows = 0] = x.shape;
    const weights = this.#keep(this.#runtime.tensor([1, rows], new Float32Array(rows).fill(1 / rows)));
    return this.#keep(this.#runtime.matmul(weights, x));
  }

  /**
   * x = x + y
   * @param {ResidentTensor} x
   * @param {ResidentTensor} y
   */
  add(x, y) {
    addTo(x.data, y.data);
    return x;
  }

  /**
   * x = max(x, 0)
   * @param {ResidentTensor} x
   */
  relu(x) {
    return this.#runtime.relu(x, { out: x });
  }

  /**
   * x = tanh(x), which is 1 - 2 / (exp(2 x) + 1)
   * @param {ResidentTensor} x
   */
  tanh(x) {
    this.#runtime.scale(x, 2, { out: x });
    this.#runtime.exp(x, { out: x });
    const { data } = x;
    for (let i = 0; i < data.length; i++) data[i] = 1 - 2 / (at(data, i) + 1);
    return x;
  }

  /** @param {ResidentTensor} result */
  #keep(result) {
    this.#results.push(result);
    return result;
  }
}

/**
 * A view of [rows, width] as one batch of [rows, heads, width of a head]: the layout "blhd".
 * @param {Tensor} x
 * @param {number} heads
 * @returns {Tensor}
 */
function splitHeads({ data, shape: [rows = 0, width = 0] }, heads) {
  return { data, shape: [1, rows, heads, width / heads] };
}

// The Universal Sentence Encoder Lite: from a text to 512 numbers, such that the dot product of two texts is
// the larger the closer their meanings. A two-layer pre-norm transformer, 256 then 512 wide, with 4 heads:
//
//   x         2 embedding(token) + position signal, for at most 128 tokens         [tokens, 256]
//   layer 0   x = x Wr + br + attention(norm(x)),   x = x + feedForward(norm(x))   [tokens, 512]
//   layer 1   x = x + attention(norm(x)),           x = x + feedForward(norm(x))   [tokens, 512]
//   sentence  tanh(W mean over tokens(x) + b), scaled to length 1                  [512]

import { RowOperations } from "./operations.mjs";
import { positionSignal, unit } from "./rows.mjs";
import { createTokenizer } from "./tokenizer.mjs";

/** @import { Operations, ResidentTensor } from "wasm-attention" */
/** @import { Dense, Layer, Model, Norm } from "./weights.mjs" */

/** Tokens from there on are not read. */
const MAX_TOKENS = 128;

/** Heads of either layer: of 64 numbers in the first, of 128 in the second. */
const HEADS = 4;

/** @typedef {Layer<ResidentTensor>} ResidentLayer */

export class SentenceEncoder {
  #rows;
  #tokenize;
  #embeddings;
  #positions;
  #first;
  #last;
  #sentence;

  /**
   * Copies the matrices into the runtime's memory, once; there its operations read them in place.
   * @param {Operations} runtime a runtime of wasm-attention, or the package itself
   * @param {Model} model
   */
  constructor(runtime, model) {
    const [first, last] = model.layers;
    this.#rows = new RowOperations(runtime);
    this.#tokenize = createTokenizer(model.vocabulary);
    this.#embeddings = model.embeddings;
    this.#positions = positionSignal(model.timescales.data, MAX_TOKENS);
    this.#first = residentLayer(runtime, first);
    this.#last = residentLayer(runtime, last);
    this.#sentence = residentDense(runtime, model.sentence);
  }

  /**
   * @param {string} text
   * @returns {Float32Array} the embedding: 512 numbers whose squares sum to 1
   */
  encode(text) {
    const rows = this.#rows;
    const tokens = this.#tokenize(text).slice(0, MAX_TOKENS);
    try {
      return unit(rows.tanh(rows.dense(this.#meanOverTokens(tokens), this.#sentence)).data);
    } finally {
      rows.clear();
    }
  }

  /**
   * @param {number[]} tokens
   * @returns {ResidentTensor} [1, 512]
   */
  #meanOverTokens(tokens) {
    const rows = this.#rows;
    // Of no tokens it is 0, as in the original where a batch holds an empty text.
    if (tokens.length === 0) return rows.zeros([1, 512]);
    let x = rows.embed(tokens, this.#embeddings, this.#positions);
    x = this.#attention(x, this.#first);
    x = this.#project(this.#hidden(x, this.#first), x, this.#first);
    x = this.#attention(x, this.#last);
    // The last projection is linear, so it may follow the mean: one row to multiply in place of one a token.
    return this.#project(rows.mean(this.#hidden(x, this.#last)), rows.mean(x), this.#last);
  }

  /**
   * The first half of a layer: every token takes in from the others what its query finds by their keys.
   * @param {ResidentTensor} x
   * @param {ResidentLayer} layer
   */
  #attention(x, layer) {
    const rows = this.#rows;
    const normalized = rows.norm(x, layer.attentionNorm);
    const query = rows.dense(normalized, layer.query);
    const key = rows.dense(normalized, layer.key);
    const value = rows.dense(normalized, layer.value);
    const mixed = rows.attention(query, key, value, HEADS);
    const residual = layer.residual ? rows.dense(x, layer.residual) : x;
    return rows.add(rows.dense(mixed, layer.output), residual);
  }

  /**
   * The second half up to its hidden units, [tokens, 1536].
   * @param {ResidentTensor} x
   * @param {ResidentLayer} layer
   */
  #hidden(x, layer) {
    const rows = this.#rows;
    return rows.relu(rows.dense(rows.norm(x, layer.hiddenNorm), layer.hidden));
  }

  /**
   * The rest of the second half: from the hidden units back to the width of x, added to x.
   * @param {ResidentTensor} hidden
   * @param {ResidentTensor} x
   * @param {ResidentLayer} layer
   */
  #project(hidden, x, layer) {
    const rows = this.#rows;
    return rows.add(rows.dense(hidden, layer.projection), x);
  }
}

/**
 * @param {Operations} runtime
 * @param {Dense} dense
 * @returns {Dense<ResidentTensor>}
 */
function residentDense(runtime, { kernel, bias }) {
  return { kernel: runtime.tensor(kernel.shape, kernel.data), bias: runtime.tensor(bias.shape, bias.data) };
}

/**
 * @param {Operations} runtime
 * @param {Norm} norm
 * @returns {Norm<ResidentTensor>}
 */
function residentNorm(runtime, { scale, bias }) {
  return { scale: runtime.tensor(scale.shape, scale.data), bias: runtime.tensor(bias.shape, bias.data) };
}

/**
 * @param {Operations} runtime
 * @param {Layer} layer
 * @returns {ResidentLayer}
 */
function residentLayer(runtime, layer) {
  return {
    attentionNorm: residentNorm(runtime, layer.attentionNorm),
    query: residentDense(runtime, layer.query),
    key: residentDense(runtime, layer.key),
    value: residentDense(runtime, layer.value),
    output: residentDense(runtime, layer.output),
    residual: layer.residual && residentDense(runtime, layer.residual),
    hiddenNorm: residentNorm(runtime, layer.hiddenNorm),
    hidden: residentDense(runtime, layer.hidden),
    projection: residentDense(runtime, layer.projection),
  };
}

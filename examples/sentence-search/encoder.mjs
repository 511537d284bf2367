// The Universal Sentence Encoder Lite: from a text to 512 numbers, such that the dot product of two texts is
// the larger the closer their meanings. A two-layer pre-norm transformer, 256 then 512 wide, with 4 heads:
//
//   x         2 embedding(token) + position signal, for at most 128 tokens         [tokens, 256]
//   layer 0   x = x Wr + br + attention(norm(x)),   x = x + feedForward(norm(x))   [tokens, 512]
//   layer 1   x = x + attention(norm(x)),           x = x + feedForward(norm(x))   [tokens, 512]
//   sentence  tanh(W mean over tokens(x) + b), scaled to length 1                  [512]

import { at, positionSignal, unitTanh } from "./rows.mjs";
import { createTokenizer } from "./tokenizer.mjs";

/** @import { Operations, ResidentTensor } from "wasm-attention" */
/** @import { Dense, Layer, Model, Norm, Weight } from "./weights.mjs" */

/** Tokens from there on are not read. */
const MAX_TOKENS = 128;

/** Heads of either layer: of 64 numbers in the first, of 128 in the second. */
const HEADS = 4;

/** Added to a variance, so that a constant row has a finite normalisation. */
const EPSILON = 1e-6;

/** @typedef {Dense<ResidentTensor>} ResidentDense */
/** @typedef {ReturnType<typeof residentLayer>} ResidentLayer */

export class SentenceEncoder {
  #runtime;
  #tokenize;
  #embeddings;
  #positions;
  #first;
  #last;
  #sentence;
  /**
   * What one text has made in the runtime's memory, to be given back.
   * @type {ResidentTensor[]}
   */
  #results = [];

  /**
   * Copies the matrices into the runtime's memory, once; there its operations read them in place.
   * @param {Operations} runtime a runtime of wasm-attention, or the package itself
   * @param {Model} model
   */
  constructor(runtime, model) {
    const [first, last] = model.layers;
    this.#runtime = runtime;
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
    const tokens = this.#tokenize(text).slice(0, MAX_TOKENS);
    try {
      return unitTanh(this.#dense(this.#meanOverTokens(tokens), this.#sentence).data);
    } finally {
      for (const result of this.#results) result.dispose();
      this.#results.length = 0;
    }
  }

  /**
   * @param {number[]} tokens
   * @returns {ResidentTensor} [1, 512]
   */
  #meanOverTokens(tokens) {
    // Of no tokens it is 0, as in the original where a batch holds an empty text.
    if (tokens.length === 0) return this.#keep(this.#runtime.tensor([1, 512]));
    let x = this.#attend(this.#embed(tokens), this.#first);
    x = this.#project(this.#hidden(x, this.#first), x, this.#first);
    x = this.#attend(x, this.#last);
    // The last projection is linear, so it may follow the mean: one row to multiply in place of one a token.
    return this.#project(this.#mean(this.#hidden(x, this.#last)), this.#mean(x), this.#last);
  }

  /**
   * Row i is twice the embedding of token i plus the signal of position i: the graph adds the embedding to its sum
   * with the signal.
   * @param {number[]} tokens
   */
  #embed(tokens) {
    const { data: embeddings, shape } = this.#embeddings;
    const [, width = 0] = shape;
    const x = this.#keep(this.#runtime.tensor([tokens.length, width]));
    const { data } = x;
    tokens.forEach((token, i) => {
      const to = i * width;
      const from = token * width;
      for (let j = 0; j < width; j++)
        data[to + j] = 2 * at(embeddings, from + j) + at(this.#positions, to + j);
    });
    return x;
  }

  /**
   * The first half of a layer: every token takes in from the others what its query finds by their keys.
   * @param {ResidentTensor} x
   * @param {ResidentLayer} layer
   */
  #attend(x, { attentionNorm, attention, residual }) {
    const normalized = this.#keep(this.#runtime.layerNorm(x, attentionNorm));
    const attended = this.#keep(this.#runtime.multiHeadAttention(normalized, attention));
    return this.#runtime.add(attended, residual ? this.#dense(x, residual) : x, { out: attended });
  }

  /**
   * The second half up to its hidden units, [tokens, 1536].
   * @param {ResidentTensor} x
   * @param {ResidentLayer} layer
   */
  #hidden(x, { hiddenNorm, hidden }) {
    const units = this.#dense(this.#keep(this.#runtime.layerNorm(x, hiddenNorm)), hidden);
    return this.#runtime.relu(units, { out: units });
  }

  /**
   * The rest of the second half: from the hidden units back to the width of x, added to x.
   * @param {ResidentTensor} hidden
   * @param {ResidentTensor} x
   * @param {ResidentLayer} layer
   */
  #project(hidden, x, { projection }) {
    const projected = this.#dense(hidden, projection);
    return this.#runtime.add(projected, x, { out: projected });
  }

  /**
   * @param {ResidentTensor} x
   * @param {ResidentDense} dense
   */
  #dense(x, { kernel, bias }) {
    return this.#keep(this.#runtime.matmul(x, kernel, { c: bias }));
  }

  /**
   * @param {ResidentTensor} x
   * @returns {ResidentTensor} the mean of all rows, [1, width]: a product with 1 / rows
   */
  #mean(x) {
    const [rows = 0] = x.shape;
    const weights = this.#keep(this.#runtime.tensor([1, rows], new Float32Array(rows).fill(1 / rows)));
    return this.#keep(this.#runtime.matmul(weights, x));
  }

  /** @param {ResidentTensor} result */
  #keep(result) {
    this.#results.push(result);
    return result;
  }
}

/**
 * @param {Operations} runtime
 * @param {Weight} weight
 */
const resident = (runtime, { data, shape }) => runtime.tensor(shape, data);

/**
 * @param {Operations} runtime
 * @param {Dense} dense
 * @returns {ResidentDense}
 */
function residentDense(runtime, { kernel, bias }) {
  return { kernel: resident(runtime, kernel), bias: resident(runtime, bias) };
}

/**
 * The options of layerNorm.
 * @param {Operations} runtime
 * @param {Norm} norm
 */
function residentNorm(runtime, { scale, bias }) {
  return { weight: resident(runtime, scale), bias: resident(runtime, bias), eps: EPSILON };
}

/**
 * The options of multiHeadAttention. The kernels of the model are [inputs, outputs].
 * @param {Operations} runtime
 * @param {Layer} layer
 */
function residentAttention(runtime, { query, key, value, output }) {
  return {
    numHeads: HEADS,
    weightLayout: /** @type {const} */ ("io"),
    qProjWeight: resident(runtime, query.kernel),
    qProjBias: resident(runtime, query.bias),
    kProjWeight: resident(runtime, key.kernel),
    kProjBias: resident(runtime, key.bias),
    vProjWeight: resident(runtime, value.kernel),
    vProjBias: resident(runtime, value.bias),
    outProjWeight: resident(runtime, output.kernel),
    outProjBias: resident(runtime, output.bias),
  };
}

/**
 * @param {Operations} runtime
 * @param {Layer} layer
 */
function residentLayer(runtime, layer) {
  return {
    attentionNorm: residentNorm(runtime, layer.attentionNorm),
    attention: residentAttention(runtime, layer),
    residual: layer.residual && residentDense(runtime, layer.residual),
    hiddenNorm: residentNorm(runtime, layer.hiddenNorm),
    hidden: residentDense(runtime, layer.hidden),
    projection: residentDense(runtime, layer.projection),
  };
}

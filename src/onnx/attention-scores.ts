// qk_matmul_output of Attention. It holds every score, [batch, heads, queries, keys], so it is made apart from Y, which
// never stores them: one product, then passes over its result.
import type { Runtime } from "../runtime.ts";
import type { Tensor } from "../types/tensor.ts";
import type { OnnxMask } from "./attention-mask.ts";
import type { Problem } from "./attention-problem.ts";
import { reshape, swapMiddle } from "./tensors.ts";

/** qk_matmul_output_mode. */
const AFTER_SOFTCAP = 1;
const AFTER_BIAS = 2;
const WEIGHTS = 3;

/** scale * Q K'. The query heads of a group lie one behind the other: with their rows they are one matrix. */
function scaledScores(runtime: Runtime, problem: Problem): Float32Array {
  const { sizes, layout, scale } = problem;
  const { batch, heads, kvHeads, lq, keys, d } = sizes;
  const [q, k] = layout === "blhd" ? [swapMiddle(problem.q), swapMiddle(problem.k)] : [problem.q, problem.k];
  const rows = kvHeads === 0 ? 0 : (heads / kvHeads) * lq;
  const a = reshape(q, [batch, kvHeads, rows, d]);
  const b = reshape(k, [batch, kvHeads, keys, d]);
  return runtime.matmul(a, b, { transposeB: true, alpha: scale }).data;
}

/** The keys from `first` to before `end` that row i of a batch entry may see. */
function visibleRange(problem: Problem, b: number, i: number): [first: number, end: number] {
  const { sizes, offsets, lengths, isCausal } = problem;
  const [left, right] = problem.window;
  const position = i + offsets[b]!;
  const length = lengths?.[b] ?? sizes.keys;
  const first = left < 0 ? 0 : Math.max(0, position - left);
  const end = Math.min(isCausal ? position + 1 : length, right < 0 ? length : position + right + 1, length);
  return [Math.min(first, sizes.keys), Math.max(0, end)];
}

/** Where row (b, h, i) of the mask begins, and the step from key to key. */
function maskRow({ shape }: OnnxMask, b: number, h: number, i: number): [start: number, step: number] {
  const [batches = 1, heads = 1, rows = 1, keys = 1] = [
    ...new Array<number>(4 - shape.length).fill(1),
    ...shape,
  ];
  const row = ((batches === 1 ? 0 : b) * heads + (heads === 1 ? 0 : h)) * rows + (rows === 1 ? 0 : i);
  return [row * keys, keys === 1 ? 0 : 1];
}

/** Adds the mask to the scores of one row, which become -Infinity where a key is not seen. Whether any is. */
function biasRow(scores: Float32Array, problem: Problem, b: number, h: number, i: number): boolean {
  const { mask } = problem;
  const [first, end] = visibleRange(problem, b, i);
  const [start, step] = mask ? maskRow(mask, b, h, i) : [0, 0];
  let isAlive = false;
  for (let j = 0; j < scores.length; j++) {
    const value = mask === undefined ? 0 : mask.data[start + j * step]!;
    const bias = mask === undefined || mask.isAdded ? value : value === 0 ? -Infinity : 0;
    // By selection, not by sum: what a hidden score is does not matter, NaN neither.
    const isSeen = j >= first && j < end && bias !== -Infinity;
    scores[j] = isSeen ? scores[j]! + bias : -Infinity;
    isAlive ||= isSeen;
  }
  return isAlive;
}

/** Adds the bias everywhere and returns the numbers of the rows that see no key. */
function addBias(scores: Float32Array, problem: Problem): number[] {
  const { batch, heads, lq, keys } = problem.sizes;
  const dead: number[] = [];
  for (let row = 0; row < batch * heads * lq; row++) {
    const [b, h, i] = [Math.floor(row / (heads * lq)), Math.floor(row / lq) % heads, row % lq];
    const isAlive = biasRow(scores.subarray(row * keys, (row + 1) * keys), problem, b, h, i);
    if (!isAlive) dead.push(row);
  }
  return dead;
}

/** The scores of a mode, in memory of their own. */
export function scoresOf(runtime: Runtime, problem: Problem, mode: number): Tensor {
  const { softcap, sizes } = problem;
  const { batch, heads, lq, keys } = sizes;
  const shape = [batch, heads, lq, keys];
  const scores = scaledScores(runtime, problem);
  if (mode >= AFTER_SOFTCAP && softcap > 0) {
    for (let i = 0; i < scores.length; i++) scores[i] = softcap * Math.tanh(scores[i]! / softcap);
  }
  if (mode < AFTER_BIAS) return { data: scores, shape };
  const dead = addBias(scores, problem);
  if (mode < WEIGHTS) return { data: scores, shape };
  const weights = runtime.softmax({ data: scores, shape }, { out: { data: scores, shape } }).data;
  for (const row of dead) weights.fill(0, row * keys, (row + 1) * keys);
  return { data: weights, shape };
}

// What follows from a case: its work, its operands, the shape of its output, its name.

import { roundHalf } from "../test/reference/float16.ts";
import { normal } from "../test/reference/random.ts";
import type { AttentionCase, BackwardCase, Case } from "./cases.ts";

/** Floating-point operations that the result needs, a multiply-add being two; exp and division count nothing. */
export function flops(c: Case): number {
  switch (c.operation) {
    case "attention":
      // q.k and p.v: 2 * headDim each, for the pairs that the mask leaves and no others.
      return 4 * c.batchSize * c.numHeads * visiblePairs(c) * c.headDim;
    case "backward":
      // Five products of that size where the forward has two.
      return 10 * c.batchSize * c.numHeads * visiblePairs(c) * c.headDim;
    case "matmul":
      return 2 * c.m * c.n * c.k;
    case "multiHeadAttention":
      // Four projections, and the two products of attention.
      return 8 * c.tokens * c.width ** 2 + 4 * c.tokens ** 2 * c.width;
    default:
      return 0;
  }
}

/** Bytes that cannot but be moved: every input read once, every output written once. */
export function bytes(c: Case): number {
  const [first = 0, ...others] = inputLengths(c);
  const width = c.operation === "attention" && c.kvDtype === "float16" ? 2 : 4;
  return 4 * (first + outputRows(c) * outputColumns(c)) + width * others.reduce((sum, n) => sum + n, 0);
}

/** Pairs of query and key that take part, for one head. */
export function visiblePairs(c: AttentionCase | BackwardCase): number {
  const { seqLenQ, seqLenK, isCausal, window, keptKeys } = c;
  if (window !== undefined) return window * seqLenQ - (window * (window - 1)) / 2;
  if (keptKeys !== undefined) return seqLenQ * keptKeys;
  if (!isCausal) return seqLenQ * seqLenK;
  const triangle = Math.min(seqLenQ, seqLenK);
  return (triangle * (triangle + 1)) / 2 + (seqLenQ - triangle) * seqLenK;
}

/** Elements of each operand, in the order in which the operation takes them. */
export function inputLengths(c: Case): number[] {
  switch (c.operation) {
    case "attention":
    case "backward": {
      const query = c.batchSize * c.numHeads * c.seqLenQ * c.headDim;
      const key = c.batchSize * c.numKvHeads * c.seqLenK * c.headDim;
      return c.operation === "attention" ? [query, key, key] : [query, key, key, query];
    }
    case "matmul":
      return [c.m * c.k, c.k * c.n];
    case "multiHeadAttention":
      return [c.tokens * c.width, 3 * c.width ** 2, c.width ** 2];
    case "layerNorm":
      return [c.rows * c.columns, c.columns, c.columns];
    case "rmsNorm":
      return [c.rows * c.columns, c.columns];
    case "rotaryEmbedding":
      return [c.rows * c.columns, (c.rows * c.columns) / 2, (c.rows * c.columns) / 2];
    case "softmax":
    case "gelu":
      return [c.rows * c.columns];
  }
}

/** Operands of a case, the same in every run and process: standard normal, or what follows from them as the case asks. */
export function randomInputs(c: Case): Float32Array[] {
  return inputLengths(c).map((length, operand) => {
    const data = Float32Array.from({ length }, normal(operand + 1));
    return operand === 0 ? data : data.map(finisher(c));
  });
}

/** What is made of the numbers of all operands but the first. */
function finisher(c: Case): (x: number) => number {
  // Weights that keep the variance of what they multiply, or no softmax would have more than one weight.
  if (c.operation === "multiHeadAttention") return (x) => x / Math.sqrt(c.width);
  if (c.operation !== "attention" || c.kvDtype === "float32") return (x) => x;
  return c.isSubnormal ? (x) => roundHalf(2e-5 * x) : roundHalf;
}

export function outputRows(c: Case): number {
  switch (c.operation) {
    case "attention":
    case "backward":
      return c.batchSize * c.numHeads * c.seqLenQ;
    case "matmul":
      return c.m;
    case "multiHeadAttention":
      return c.tokens;
    default:
      return c.rows;
  }
}

export function outputColumns(c: Case): number {
  switch (c.operation) {
    case "attention":
    case "backward":
      return c.headDim;
    case "matmul":
      return c.n;
    case "multiHeadAttention":
      return c.width;
    default:
      return c.columns;
  }
}

/** Name of a case in tables and for --filter. */
export function label(c: Case): string {
  switch (c.operation) {
    case "attention":
    case "backward": {
      const shape = [c.batchSize, c.numHeads, c.seqLenQ, c.seqLenK, c.headDim].join(", ");
      const shared = c.numKvHeads === c.numHeads ? "" : ` ${c.numKvHeads} kv heads`;
      const half = (c.kvDtype === "float16" ? " float16" : "") + (c.isSubnormal ? " subnormal" : "");
      const window = c.window === undefined ? "" : ` window ${c.window}`;
      const mask = c.keptKeys === undefined ? "" : ` mask of ${c.keptKeys} keys`;
      return `${c.operation} (${shape})${shared}${half}${c.isCausal ? " causal" : ""}${window}${mask}`;
    }
    case "matmul":
      return `matmul ${c.m}x${c.k}x${c.n}${c.transposeB ? " transposeB" : ""}`;
    case "softmax":
      return `softmax ${c.rows}x${c.columns}${c.axis === 0 ? " axis 0" : ""}`;
    case "multiHeadAttention":
      return `${c.operation} [${c.tokens}, ${c.width}] ${c.numHeads} heads ${c.weightLayout}`;
    default:
      return `${c.operation} ${c.rows}x${c.columns}`;
  }
}

/** The options of the library that make a case of it. */
export function attentionOptions({
  isCausal,
  window,
  keptKeys,
  seqLenQ,
  seqLenK,
}: AttentionCase | BackwardCase) {
  return {
    isCausal,
    ...(window === undefined ? {} : { windowSize: [window - 1, 0] as [number, number] }),
    ...(keptKeys === undefined ? {} : { attnMask: maskOf(seqLenQ, seqLenK, keptKeys) }),
  };
}

/** Every query sees the first keys. */
function maskOf(seqLenQ: number, seqLenK: number, keptKeys: number) {
  const data = new Uint8Array(seqLenQ * seqLenK);
  for (let i = 0; i < seqLenQ; i++) data.fill(1, i * seqLenK, i * seqLenK + keptKeys);
  return { data, shape: [seqLenQ, seqLenK] };
}

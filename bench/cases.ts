// The one table of shapes that every bench and every comparison with a peer runs.

import { roundHalf } from "../test/reference/float16.ts";
import { normal } from "../test/reference/random.ts";

/** Attention over q [batchSize, numHeads, seqLenQ, headDim] and k, v [batchSize, numKvHeads, seqLenK, headDim]. */
export interface AttentionCase {
  readonly operation: "attention";
  readonly batchSize: number;
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly seqLenQ: number;
  readonly seqLenK: number;
  readonly headDim: number;
  readonly isCausal: boolean;
  /** Keys that a query sees, itself the last of them: a causal window. */
  readonly window?: number;
  /** Keys that a boolean mask leaves, the first ones, of every query. */
  readonly keptKeys?: number;
  /** What keys and values are stored as; of float16 the operands are numbers that it can hold. */
  readonly kvDtype: "float32" | "float16";
}

/** The gradients of an attention case: its operands, and the gradient of its output. */
export interface BackwardCase extends Omit<AttentionCase, "operation"> {
  readonly operation: "backward";
}

/** a [m, k] @ b [k, n]. */
export interface MatmulCase {
  readonly operation: "matmul";
  readonly m: number;
  readonly k: number;
  readonly n: number;
  readonly transposeB: boolean;
}

/** Softmax over the last axis of [rows, columns], or down its columns. */
export interface SoftmaxCase {
  readonly operation: "softmax";
  readonly rows: number;
  readonly columns: number;
  readonly axis: 0 | 1;
}

/** The cases that peers and plain JavaScript have an operation for. */
export type ForwardCase = AttentionCase | MatmulCase | SoftmaxCase;
export type Case = ForwardCase | BackwardCase;

/** Prefill: many queries, bound by arithmetic. */
export const attentionCases: readonly AttentionCase[] = [
  attention(1, 12, 128, 128, 64),
  attention(1, 8, 512, 512, 64),
  attention(1, 8, 1024, 1024, 64),
  attention(1, 8, 1024, 1024, 64, { isCausal: true }),
  attention(1, 8, 1024, 1024, 128),
  attention(1, 1, 4096, 4096, 64),
  attention(8, 12, 32, 32, 64),
  attention(1, 8, 1023, 1023, 64),
  attention(1, 8, 1000, 1000, 72),
];

/** What is not seen should cost nothing: each case beside one that has no more keys than are seen. */
export const skippingCases: readonly AttentionCase[] = [
  attention(32, 8, 256, 256, 64),
  attention(1, 8, 8192, 8192, 64, { window: 256 }),
  attention(1, 1, 960, 960, 64, { keptKeys: 960 }),
  attention(1, 1, 960, 1920, 64, { keptKeys: 960 }),
];

/** Training. */
export const backwardCases: readonly BackwardCase[] = [
  attention(1, 8, 1024, 1024, 64),
  attention(1, 8, 1024, 1024, 64, { isCausal: true }),
  attention(1, 8, 512, 512, 128),
  attention(8, 12, 128, 128, 64),
].map((c) => ({ ...c, operation: "backward" }));

/** One new query against a cache of keys: bound by the reading of keys and values. */
export const decodeCases: readonly AttentionCase[] = [
  attention(1, 32, 1, 2048, 128),
  attention(1, 32, 1, 2048, 128, { numKvHeads: 8 }),
];

/** The same through a KeyValueCache, of either type of storage. */
export const cacheCases: readonly AttentionCase[] = (["float32", "float16"] as const).flatMap((kvDtype) => [
  attention(1, 32, 1, 2048, 128, { kvDtype }),
  attention(1, 32, 1, 8192, 128, { kvDtype }),
  attention(1, 32, 1, 2048, 128, { kvDtype, numKvHeads: 8 }),
]);

/** Square, transposed, oblong (a layer of BERT-base), matrix-vector, and sizes that fit no tile. */
export const matmulCases: readonly MatmulCase[] = [
  matmul(64, 64, 64),
  matmul(128, 128, 128),
  matmul(256, 256, 256),
  matmul(512, 512, 512),
  matmul(1024, 1024, 1024),
  matmul(512, 512, 512, { transposeB: true }),
  matmul(128, 768, 3072),
  matmul(1, 4096, 4096),
  matmul(127, 127, 129),
  matmul(1023, 1023, 1023),
];

export const softmaxCases: readonly SoftmaxCase[] = [
  softmax(512, 512),
  softmax(1536, 128),
  softmax(4096, 4096),
  softmax(512, 512, { axis: 0 }),
];

/** So small that the call itself is what is paid for. */
export const tinyCases: readonly ForwardCase[] = [
  attention(1, 1, 4, 4, 4),
  attention(1, 1, 8, 8, 8),
  matmul(4, 4, 4),
  matmul(16, 16, 16),
  softmax(1, 4),
  softmax(1, 64),
];

/** What the peers are asked to do: the cases that each of them has an operation for. */
export const comparedCases: readonly Case[] = [
  ...attentionCases,
  ...backwardCases.slice(0, 2),
  ...decodeCases,
  ...matmulCases,
  ...softmaxCases,
  ...tinyCases,
].filter(
  (c) =>
    c.operation === "backward" ||
    (c.operation === "attention" && c.numKvHeads === c.numHeads) ||
    (c.operation === "matmul" && !c.transposeB) ||
    (c.operation === "softmax" && c.axis === 1),
);

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
    case "softmax":
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
    case "softmax":
      return [c.rows * c.columns];
  }
}

/** Operands of a case: standard normal, and the same in every run and process. */
export function randomInputs(c: Case): Float32Array[] {
  const isHalf = c.operation === "attention" && c.kvDtype === "float16";
  return inputLengths(c).map((length, operand) => {
    const data = Float32Array.from({ length }, normal(operand + 1));
    return isHalf && operand > 0 ? data.map(roundHalf) : data;
  });
}

export function outputRows(c: Case): number {
  if (c.operation === "attention" || c.operation === "backward") return c.batchSize * c.numHeads * c.seqLenQ;
  return c.operation === "matmul" ? c.m : c.rows;
}

export function outputColumns(c: Case): number {
  if (c.operation === "attention" || c.operation === "backward") return c.headDim;
  return c.operation === "matmul" ? c.n : c.columns;
}

/** Name of a case in tables and for --filter. */
export function label(c: Case): string {
  switch (c.operation) {
    case "attention":
    case "backward": {
      const shape = [c.batchSize, c.numHeads, c.seqLenQ, c.seqLenK, c.headDim].join(", ");
      const shared = c.numKvHeads === c.numHeads ? "" : ` ${c.numKvHeads} kv heads`;
      const half = c.kvDtype === "float16" ? " float16" : "";
      const window = c.window === undefined ? "" : ` window ${c.window}`;
      const mask = c.keptKeys === undefined ? "" : ` mask of ${c.keptKeys} keys`;
      return `${c.operation} (${shape})${shared}${half}${c.isCausal ? " causal" : ""}${window}${mask}`;
    }
    case "matmul":
      return `matmul ${c.m}x${c.k}x${c.n}${c.transposeB ? " transposeB" : ""}`;
    case "softmax":
      return `softmax ${c.rows}x${c.columns}${c.axis === 0 ? " axis 0" : ""}`;
  }
}

function attention(
  batchSize: number,
  numHeads: number,
  seqLenQ: number,
  seqLenK: number,
  headDim: number,
  more: Partial<Pick<AttentionCase, "isCausal" | "numKvHeads" | "window" | "keptKeys" | "kvDtype">> = {},
): AttentionCase {
  return {
    operation: "attention",
    batchSize,
    numHeads,
    numKvHeads: numHeads,
    seqLenQ,
    seqLenK,
    headDim,
    isCausal: false,
    kvDtype: "float32",
    ...more,
  };
}

/** The options of the library that make a case of it. */
export function attentionOptions({
  isCausal,
  window,
  keptKeys,
  seqLenQ,
  seqLenK,
}: AttentionCase | BackwardCase) {
  const mask = { data: new Uint8Array(seqLenQ * seqLenK), shape: [seqLenQ, seqLenK] };
  for (let i = 0; i < seqLenQ; i++) mask.data.fill(1, i * seqLenK, i * seqLenK + (keptKeys ?? 0));
  return {
    isCausal,
    ...(window === undefined ? {} : { windowSize: [window - 1, 0] as [number, number] }),
    ...(keptKeys === undefined ? {} : { attnMask: mask }),
  };
}

function matmul(m: number, k: number, n: number, { transposeB = false } = {}): MatmulCase {
  return { operation: "matmul", m, k, n, transposeB };
}

function softmax(rows: number, columns: number, { axis = 1 }: { axis?: 0 | 1 } = {}): SoftmaxCase {
  return { operation: "softmax", rows, columns, axis };
}

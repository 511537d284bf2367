// The one table of shapes that every bench and every comparison with a peer runs.

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
  /** Keys and values so small that of float16 most are subnormal. */
  readonly isSubnormal?: boolean;
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

/** Self-attention between its projections, of x [tokens, width]. */
export interface MultiHeadCase {
  readonly operation: "multiHeadAttention";
  readonly tokens: number;
  readonly width: number;
  readonly numHeads: number;
  readonly weightLayout: "oi" | "io";
}

/** What stands between the products of a transformer: each row of [rows, columns] by itself. */
export interface RowsCase {
  readonly operation: "layerNorm" | "rmsNorm" | "gelu" | "rotaryEmbedding";
  readonly rows: number;
  readonly columns: number;
}

/** The cases that plain JavaScript has an operation for. */
export type ForwardCase = AttentionCase | MatmulCase | SoftmaxCase;
/** Those that there are peers for. */
export type ComparedCase = ForwardCase | BackwardCase;
export type Case = ComparedCase | MultiHeadCase | RowsCase;

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

/** The same through a KeyValueCache, of either type of storage; subnormal halves are read in another way. */
export const cacheCases: readonly AttentionCase[] = [
  ...(["float32", "float16"] as const).flatMap((kvDtype) => [
    attention(1, 32, 1, 2048, 128, { kvDtype }),
    attention(1, 32, 1, 8192, 128, { kvDtype }),
    attention(1, 32, 1, 2048, 128, { kvDtype, numKvHeads: 8 }),
  ]),
  attention(1, 32, 1, 2048, 128, { kvDtype: "float16", isSubnormal: true }),
];

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

/** A layer of BERT-base, and few tokens, which are bound by the reading of the weights, in either layout of them. */
export const multiHeadCases: readonly MultiHeadCase[] = [
  multiHead(128, 768, 12, "oi"),
  multiHead(8, 512, 8, "oi"),
  multiHead(8, 512, 8, "io"),
];

export const rowsCases: readonly RowsCase[] = [
  { operation: "layerNorm", rows: 512, columns: 768 },
  { operation: "rmsNorm", rows: 512, columns: 768 },
  { operation: "gelu", rows: 512, columns: 3072 },
  { operation: "rotaryEmbedding", rows: 4096, columns: 64 },
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
export const comparedCases: readonly ComparedCase[] = [
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

function attention(
  batchSize: number,
  numHeads: number,
  seqLenQ: number,
  seqLenK: number,
  headDim: number,
  more: Partial<Omit<AttentionCase, "operation">> = {},
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

function matmul(m: number, k: number, n: number, { transposeB = false } = {}): MatmulCase {
  return { operation: "matmul", m, k, n, transposeB };
}

function softmax(rows: number, columns: number, { axis = 1 }: { axis?: 0 | 1 } = {}): SoftmaxCase {
  return { operation: "softmax", rows, columns, axis };
}

function multiHead(
  tokens: number,
  width: number,
  numHeads: number,
  weightLayout: MultiHeadCase["weightLayout"],
): MultiHeadCase {
  return { operation: "multiHeadAttention", tokens, width, numHeads, weightLayout };
}

import { gelu } from "../test/reference/activation.ts";
import { attention } from "../test/reference/attention.ts";
import { attentionBackward } from "../test/reference/attention-backward.ts";
import { matmul } from "../test/reference/matmul.ts";
import { multiHeadAttention } from "../test/reference/multi-head-attention.ts";
import { layerNorm, rmsNorm } from "../test/reference/norm.ts";
import { rotaryEmbedding } from "../test/reference/rotary.ts";
import { float32, float64, type Rounding } from "../test/reference/rounding.ts";
import { softmaxRow } from "../test/reference/softmax.ts";
import type { AttentionCase, BackwardCase, Case, MultiHeadCase, RowsCase } from "./cases.ts";
import { attentionOptions, label, outputColumns, outputRows } from "./facts.ts";

/** Rows of the output that are computed anew; all of them where there are no more. */
const SAMPLED_ROWS = 8;

/** Ulps of the largest number of the output that any result may be off by: for rows where plain float32 is lucky. */
const ULPS = 4;

/**
 * Throws unless the sampled rows of an output are as near to the float64 truth as plain float32 loops
 * come, times `slack`, and every other element is at least a finite number. Returns the error found as
 * a multiple of that of the plain loops.
 */
export function verify(c: Case, inputs: readonly Float32Array[], output: Float32Array, slack = 2): number {
  const size = outputRows(c) * outputColumns(c);
  if (output.length !== size)
    throw new Error(`${label(c)}: the output has ${output.length} elements, not ${size}`);
  if (!output.every(Number.isFinite)) throw new Error(`${label(c)}: the output holds NaN or Infinity`);

  const { error, plainError } = errorOfRows(c, inputs, output);
  if (!(error <= slack * plainError)) {
    const allowed = (slack * plainError).toExponential(2);
    throw new Error(`${label(c)}: wrong, off by ${error.toExponential(2)} where ${allowed} is allowed`);
  }
  return error / plainError;
}

/** Largest error of the output over the sampled rows, and of plain float32 over the same. */
function errorOfRows(
  c: Case,
  inputs: readonly Float32Array[],
  output: Float32Array,
): { error: number; plainError: number } {
  let error = 0;
  let plainError = 0;
  let largest = 0;
  for (const row of sampledRows(isDownColumns(c) ? outputColumns(c) : outputRows(c))) {
    const truth = referenceRow(c, inputs, row, float64);
    const plain = referenceRow(c, inputs, row, float32);
    for (let j = 0; j < truth.length; j++) {
      const expected = truth[j] as number;
      error = Math.max(error, Math.abs((output[outputIndex(c, row, j)] as number) - expected));
      plainError = Math.max(plainError, Math.abs((plain[j] as number) - expected));
      largest = Math.max(largest, Math.abs(expected));
    }
  }
  return { error, plainError: Math.max(plainError, ULPS * 2 ** -24 * largest) };
}

/** First, last, and some between at a distance that meets every remainder of a tile. */
function sampledRows(rows: number): number[] {
  if (rows <= SAMPLED_ROWS) return Array.from({ length: rows }, (_, row) => row);
  return Array.from({ length: SAMPLED_ROWS }, (_, i) => Math.floor((i * (rows - 1)) / (SAMPLED_ROWS - 1)));
}

/** Softmax down the columns is checked column by column: there a "row" is one of them. */
function isDownColumns(c: Case): boolean {
  return c.operation === "softmax" && c.axis === 0;
}

function outputIndex(c: Case, row: number, j: number): number {
  return isDownColumns(c) ? j * outputColumns(c) + row : row * outputColumns(c) + j;
}

function referenceRow(
  c: Case,
  inputs: readonly Float32Array[],
  row: number,
  round: Rounding,
): ArrayLike<number> {
  const [first, second] = inputs as [Float32Array, Float32Array];
  switch (c.operation) {
    case "attention":
      return attentionRow(c, inputs, row, round);
    case "backward":
      return queryGradientRow(c, inputs, row, round);
    case "matmul": {
      const a = { data: first.subarray(row * c.k, (row + 1) * c.k), shape: [1, c.k] };
      const b = { data: second, shape: c.transposeB ? [c.n, c.k] : [c.k, c.n] };
      return matmul(a, b, { transposeB: c.transposeB }, round).data;
    }
    case "softmax": {
      const length = isDownColumns(c) ? c.rows : c.columns;
      return softmaxRow(
        Array.from({ length }, (_, j) => first[outputIndex(c, row, j)] as number),
        round,
      );
    }
    case "multiHeadAttention":
      return multiHeadRow(c, inputs, row, round);
    default:
      return rowOfRows(c, inputs, row, round);
  }
}

/** One query, the keys and values of its head, and the options under which it is what it is among the others. */
function oneQuery(
  c: AttentionCase | BackwardCase,
  [query, key, value]: readonly Float32Array[],
  row: number,
) {
  const i = row % c.seqLenQ;
  const head = Math.floor(row / c.seqLenQ) % c.numHeads;
  const batch = Math.floor(row / c.seqLenQ / c.numHeads);
  const kvHead = batch * c.numKvHeads + Math.floor((head * c.numKvHeads) / c.numHeads);
  const kvLength = c.seqLenK * c.headDim;
  const oneHead = (data: Float32Array) => ({
    data: data.subarray(kvHead * kvLength, (kvHead + 1) * kvLength),
    shape: [c.seqLenK, c.headDim],
  });
  return {
    query: rowOf(query as Float32Array, row, c.headDim),
    key: oneHead(key as Float32Array),
    value: oneHead(value as Float32Array),
    options: { ...attentionOptions({ ...c, seqLenQ: 1 }), queryOffset: i },
  };
}

const rowOf = (data: Float32Array, row: number, width: number) => ({
  data: data.subarray(row * width, (row + 1) * width),
  shape: [1, width],
});

/** The reference over one query and the keys of its head alone. */
function attentionRow(
  c: AttentionCase,
  inputs: readonly Float32Array[],
  row: number,
  round: Rounding,
): ArrayLike<number> {
  const { query, key, value, options } = oneQuery(c, inputs, row);
  return attention(query, key, value, options, round).out.data;
}

/** The gradient of one query depends on no other. */
function queryGradientRow(
  c: BackwardCase,
  inputs: readonly Float32Array[],
  row: number,
  round: Rounding,
): ArrayLike<number> {
  const { options, ...operands } = oneQuery(c, inputs, row);
  const dOut = rowOf(inputs[3] as Float32Array, row, c.headDim);
  return attentionBackward({ dOut, ...operands }, options, round).dQuery.data;
}

/** The rows share all projections of keys and values, so the whole is computed, once for each rounding. */
const wholes = new WeakMap<readonly Float32Array[], Map<Rounding, ArrayLike<number>>>();

function multiHeadRow(
  c: MultiHeadCase,
  inputs: readonly Float32Array[],
  row: number,
  round: Rounding,
): ArrayLike<number> {
  const known = wholes.get(inputs) ?? new Map<Rounding, ArrayLike<number>>();
  wholes.set(inputs, known);
  const whole = known.get(round) ?? wholeMultiHead(c, inputs, round);
  known.set(round, whole);
  return Array.from({ length: c.width }, (_, j) => whole[row * c.width + j] as number);
}

function wholeMultiHead(
  { tokens, width, numHeads, weightLayout }: MultiHeadCase,
  inputs: readonly Float32Array[],
  round: Rounding,
): ArrayLike<number> {
  const [data, inProj, outProj] = inputs as [Float32Array, Float32Array, Float32Array];
  const x = { data, shape: [tokens, width] };
  /** The weight [outputs, inputs] of a projection whose outputs begin at `first` of `outputs`. */
  const weightOf = (weights: Float32Array, outputs: number, first: number) => {
    const at = (i: number, j: number) => (weightLayout === "oi" ? i * width + j : j * outputs + i);
    const values = Array.from({ length: width * width }, (_, n) => {
      return weights[at(first + Math.floor(n / width), n % width)] as number;
    });
    return { weight: { data: values, shape: [width, width] } };
  };
  const projections = {
    qProj: weightOf(inProj, 3 * width, 0),
    kProj: weightOf(inProj, 3 * width, width),
    vProj: weightOf(inProj, 3 * width, 2 * width),
    outProj: weightOf(outProj, width, 0),
  };
  return multiHeadAttention(x, x, x, { numHeads, numKvHeads: numHeads, ...projections }, round).data;
}

function rowOfRows(
  c: RowsCase,
  inputs: readonly Float32Array[],
  row: number,
  round: Rounding,
): ArrayLike<number> {
  const [data, second, third] = inputs as [Float32Array, Float32Array, Float32Array];
  const x = rowOf(data, row, c.columns);
  const shape = [c.columns];
  switch (c.operation) {
    case "layerNorm":
      return layerNorm(x, { weight: { data: second, shape }, bias: { data: third, shape } }, round).out.data;
    case "rmsNorm":
      return rmsNorm(x, { weight: { data: second, shape } }, round).data;
    case "gelu":
      return gelu(x, "none", round).data;
    case "rotaryEmbedding": {
      const [cos, sin] = [rowOf(second, row, c.columns / 2), rowOf(third, row, c.columns / 2)];
      return rotaryEmbedding(x, cos, sin, {}, round).data;
    }
  }
}

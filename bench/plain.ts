// What one writes by hand without a library: loops over Float32Array, in the order that is kind to the
// cache. The floor for tiny calls, and a peer like any other for the large.

import type { AttentionCase, MatmulCase, SoftmaxCase } from "./cases.ts";

/** Row by row: scores of the visible keys, their softmax, the weighted sum of the values. */
export function plainAttention(
  c: AttentionCase,
  q: Float32Array,
  k: Float32Array,
  v: Float32Array,
): Float32Array {
  const { numHeads, numKvHeads, seqLenQ, seqLenK, headDim: d } = c;
  const out = new Float32Array(q.length);
  const weights = new Float32Array(seqLenK);
  const scale = 1 / Math.sqrt(d);
  for (let row = 0; row < q.length / d; row++) {
    const head = Math.floor(row / seqLenQ);
    const kvStart = Math.floor((head * numKvHeads) / numHeads) * seqLenK * d;
    const visible = c.isCausal ? Math.min(seqLenK, (row % seqLenQ) + 1) : seqLenK;
    for (let j = 0; j < visible; j++) weights[j] = scale * dot(q, row * d, k, kvStart + j * d, d);
    softmaxInPlace(weights, 0, visible);
    for (let j = 0; j < visible; j++) addScaled(out, row * d, v, kvStart + j * d, weights[j] as number, d);
  }
  return out;
}

/** The innermost loop runs along four rows of b at once, so that the result is read and written a quarter as often. */
export function plainMatmul(c: MatmulCase, a: Float32Array, b: Float32Array): Float32Array {
  const { m, n, k } = c;
  const out = new Float32Array(m * n);
  for (let i = 0; i < m; i++) {
    const row = i * n;
    let p = 0;
    for (; p + 4 <= k; p += 4) {
      const a0 = a[i * k + p] as number;
      const a1 = a[i * k + p + 1] as number;
      const a2 = a[i * k + p + 2] as number;
      const a3 = a[i * k + p + 3] as number;
      const b0 = p * n;
      const b1 = b0 + n;
      const b2 = b1 + n;
      const b3 = b2 + n;
      for (let j = 0; j < n; j++) {
        const low = a0 * (b[b0 + j] as number) + a1 * (b[b1 + j] as number);
        const high = a2 * (b[b2 + j] as number) + a3 * (b[b3 + j] as number);
        out[row + j] = (out[row + j] as number) + low + high;
      }
    }
    for (; p < k; p++) addScaled(out, row, b, p * n, a[i * k + p] as number, n);
  }
  return out;
}

export function plainSoftmax(c: SoftmaxCase, x: Float32Array): Float32Array {
  const out = x.slice();
  for (let row = 0; row < c.rows; row++) softmaxInPlace(out, row * c.columns, c.columns);
  return out;
}

/** Four sums at a time: one alone would wait for each addition. */
function dot(a: Float32Array, aStart: number, b: Float32Array, bStart: number, length: number): number {
  let sum0 = 0;
  let sum1 = 0;
  let sum2 = 0;
  let sum3 = 0;
  let i = 0;
  for (; i + 4 <= length; i += 4) {
    sum0 += (a[aStart + i] as number) * (b[bStart + i] as number);
    sum1 += (a[aStart + i + 1] as number) * (b[bStart + i + 1] as number);
    sum2 += (a[aStart + i + 2] as number) * (b[bStart + i + 2] as number);
    sum3 += (a[aStart + i + 3] as number) * (b[bStart + i + 3] as number);
  }
  for (; i < length; i++) sum0 += (a[aStart + i] as number) * (b[bStart + i] as number);
  return sum0 + sum1 + (sum2 + sum3);
}

function addScaled(
  target: Float32Array,
  targetStart: number,
  source: Float32Array,
  sourceStart: number,
  factor: number,
  length: number,
): void {
  for (let i = 0; i < length; i++) {
    target[targetStart + i] =
      (target[targetStart + i] as number) + factor * (source[sourceStart + i] as number);
  }
}

function softmaxInPlace(x: Float32Array, start: number, length: number): void {
  let max = -Infinity;
  for (let j = start; j < start + length; j++) max = Math.max(max, x[j] as number);
  let sum = 0;
  for (let j = start; j < start + length; j++) sum += x[j] = Math.exp((x[j] as number) - max);
  for (let j = start; j < start + length; j++) x[j] = (x[j] as number) / sum;
}

import { dropout } from "./dropout.ts";
import { float64, type RefTensor, type Rounding } from "./rounding.ts";
import { broadcastOffset, sizeOf } from "./shapes.ts";
import { rowStatistics } from "./softmax.ts";

/** Float32Array and Float64Array are added, -Infinity removing the key; all else is true / non-zero = attend. */
export interface RefMask {
  readonly data: ArrayLike<number> | ArrayLike<boolean>;
  readonly shape: readonly number[];
}

/** The meaning of each option is the one of the public API. */
export interface RefAttentionOptions {
  readonly attnMask?: RefMask | undefined;
  readonly isCausal?: boolean | undefined;
  readonly scale?: number | undefined;
  readonly queryOffset?: number | Int32Array | undefined;
  readonly causalAlignment?: "topLeft" | "bottomRight" | undefined;
  readonly kvLengths?: Int32Array | undefined;
  readonly layout?: "bhld" | "blhd" | undefined;
  readonly softcap?: number | undefined;
  readonly windowSize?: readonly [number, number] | undefined;
  readonly alibiSlopes?: RefTensor | undefined;
  readonly sinks?: RefTensor | undefined;
  readonly dropoutP?: number | undefined;
  readonly seed?: number | undefined;
  /** Scale the query before the product instead of the score after it: the same but for the rounding. */
  readonly scaleQuery?: boolean | undefined;
}

export interface RefAttention {
  readonly out: RefTensor;
  readonly lse: RefTensor;
}

/**
 * Scaled dot-product attention, one row (batch b, head h, query i) at a time, in numbered passes:
 *
 *   pass 1   the keys the row sees; no other is ever read
 *   pass 2   s_j = scale (q . k_j);  s_j = softcap tanh(s_j / softcap);  + alibi;  + additive mask
 *   pass 3   m = max_j s_j;  l = sum_j e^(s_j - m), the sink being one more term of both
 *   pass 4   p_j = e^(s_j - m) / l;  lse = m + log l
 *   pass 5   out = sum_j p_j v_j, with dropout sum_j m_j p_j v_j, m_j being 0 or 1 / (1 - dropoutP)
 *
 * q: [batch.., heads, lq, d]   k: [batch.., kvHeads, lk, d]   v: [batch.., kvHeads, lk, dv], or with the
 * axes of heads and length exchanged under "blhd"; a batch of 1 serves every batch of the others. out is
 * like q with dv for d; lse is [batch.., heads, lq].
 */
export function attention(
  query: RefTensor,
  key: RefTensor,
  value: RefTensor,
  options: RefAttentionOptions = {},
  round: Rounding = float64,
): RefAttention {
  const layout = options.layout ?? "bhld";
  const [q, k, v] = [view(query, layout), view(key, layout), view(value, layout)] as const;
  const batchShape = [query, key, value]
    .map(({ shape }) => shape.slice(0, -3))
    .find((lead) => sizeOf(lead) !== 1);
  const lead = batchShape ?? query.shape.slice(0, -3);
  const outShape = [...lead, ...query.shape.slice(lead.length, -1), v.width];
  const lseShape = [...lead, ...(query.shape.length > 2 ? [q.heads] : []), q.length];
  const out = new Float64Array(sizeOf(outShape));
  const lse = new Float64Array(sizeOf(lseShape));
  const outAt = view({ data: out, shape: outShape }, layout).at;

  for (let b = 0; b < sizeOf(lead); b++) {
    for (let h = 0; h < q.heads; h++) {
      for (let i = 0; i < q.length; i++) {
        const row = rowAt(b, h, i, q.length, k.length, options);
        const o = out.subarray(outAt(b, h, i), outAt(b, h, i) + v.width);
        lse[(b * q.heads + h) * q.length + i] = attendRow(row, q, k, v, options, round, o);
      }
    }
  }
  return { out: { data: out, shape: outShape }, lse: { data: lse, shape: lseShape } };
}

/** Passes 1 to 4: a row's keys, and of each the capped score, the weight, and what dropout makes of it. */
export interface RowWeights {
  hKv: number;
  keys: { j: number; capped: number; p: number; keep: number }[];
  /** Weight of the sink, 0 without one. */
  pSink: number;
  lse: number;
}

export function weighRow(
  row: Row,
  q: View,
  k: View,
  options: RefAttentionOptions,
  round: Rounding,
): RowWeights {
  // Grouped-query attention: consecutive query heads share one key/value head.
  const hKv = Math.floor((row.h * k.heads) / q.heads);
  const scale = round(options.scale ?? 1 / Math.sqrt(q.width));
  const q_bhi = q.at(row.b, row.h, row.i);

  // pass 1
  const visible = visibleKeys(row, k.length, options);

  // pass 2
  const [before, after] = options.scaleQuery ? [scale, 1] : [1, scale];
  const capped = visible.map(({ j }) => {
    const q_dot_k = dot(q.width, before, q.data, q_bhi, k.data, k.at(row.b, hKv, j), round);
    return softcapped(round(after * q_dot_k), options, round);
  });
  const s = visible.map(({ j, bias }, n) => biased(capped[n] as number, row, j, bias, options, round));

  // pass 3 and 4
  const { p, lse } = probabilities(s, options.sinks?.data[row.h], round);
  const keep = dropout(options, row.b * q.heads + row.h, row.i);
  return {
    hKv,
    keys: visible.map(({ j }, n) => ({ j, capped: capped[n] as number, p: p[n] as number, keep: keep(j) })),
    pSink: p[visible.length] ?? 0,
    lse,
  };
}

/** The five passes for one row; fills o and returns the log-sum-exp. */
function attendRow(
  row: Row,
  q: View,
  k: View,
  v: View,
  options: RefAttentionOptions,
  round: Rounding,
  o: Float64Array,
): number {
  const { hKv, keys, lse } = weighRow(row, q, k, options, round);

  // pass 5
  for (const { j, p, keep } of keys) {
    addScaled(v.width, round(p * keep), v.data, v.at(row.b, hKv, j), o, round);
  }
  return lse;
}

/** sum_c (a x_c) y_c, one term after the other. */
export function dot(
  n: number,
  a: number,
  x: Float64Array,
  x0: number,
  y: Float64Array,
  y0: number,
  round: Rounding,
): number {
  let sum = 0;
  for (let c = 0; c < n; c++) {
    sum = round(sum + round(round(a * (x[x0 + c] as number)) * (y[y0 + c] as number)));
  }
  return sum;
}

/** o_c += p x_c. */
export function addScaled(
  n: number,
  p: number,
  x: Float64Array,
  x0: number,
  o: Float64Array,
  round: Rounding,
): void {
  for (let c = 0; c < n; c++) o[c] = round((o[c] as number) + round(p * (x[x0 + c] as number)));
}

/** The keys that query i of head h of batch b sees, in order. */
export function keysSeenBy(
  b: number,
  h: number,
  i: number,
  lq: number,
  lk: number,
  options: RefAttentionOptions,
): number[] {
  return visibleKeys(rowAt(b, h, i, lq, lk, options), lk, options).map(({ j }) => j);
}

export interface Row {
  b: number;
  h: number;
  i: number;
  /** Where query i stands among the keys: i + offset. Causal, windows and alibi all measure from here. */
  position: number;
}

export function rowAt(
  b: number,
  h: number,
  i: number,
  lq: number,
  lk: number,
  options: RefAttentionOptions,
): Row {
  return { b, h, i, position: positionOf(b, i, lq, lk, options) };
}

/** Where query i of batch b stands among the keys. */
export function positionOf(
  b: number,
  i: number,
  lq: number,
  lk: number,
  options: RefAttentionOptions,
): number {
  const { queryOffset, causalAlignment, kvLengths } = options;
  const aligned = causalAlignment === "bottomRight" ? (kvLengths?.[b] ?? lk) - lq : 0;
  return i + (typeof queryOffset === "number" ? queryOffset : (queryOffset?.[b] ?? aligned));
}

/** A key that a row sees, and what the mask adds to its score. */
interface VisibleKey {
  j: number;
  bias: number;
}

function visibleKeys(row: Row, lk: number, options: RefAttentionOptions): VisibleKey[] {
  const { isCausal = false, windowSize = [-1, -1], kvLengths } = options;
  const [left, right] = windowSize.map((w) => (w < 0 ? Infinity : w)) as [number, number];
  const biasOf = maskRow(row, options);
  const end = Math.min(lk, kvLengths?.[row.b] ?? lk);
  const visible: VisibleKey[] = [];
  for (let j = 0; j < end; j++) {
    if (isCausal && j > row.position) continue;
    if (j < row.position - left || j > row.position + right) continue;
    const bias = biasOf(j);
    if (bias !== -Infinity) visible.push({ j, bias });
  }
  return visible;
}

/** The mask of one row of scores. A boolean mask adds 0 where it attends and -Infinity where it does not. */
function maskRow({ b, h, i }: Row, { attnMask }: RefAttentionOptions): (j: number) => number {
  if (!attnMask) return () => 0;
  const { data, shape } = attnMask;
  const axes = [sizeOf(shape.slice(0, -3)), ...shape.slice(-3)].slice(shape.length < 4 ? 1 : 0);
  const first = broadcastOffset([b, h, i, 0], axes);
  const step = (shape.at(-1) ?? 1) === 1 ? 0 : 1;
  const isBoolean = !(data instanceof Float32Array || data instanceof Float64Array);
  return (j) => {
    const value = data[first + j * step] as number | boolean;
    return isBoolean ? (value ? 0 : -Infinity) : (value as number);
  };
}

function softcapped(score: number, { softcap = 0 }: RefAttentionOptions, round: Rounding): number {
  return softcap > 0 ? round(softcap * round(Math.tanh(round(score / softcap)))) : score;
}

/** Adds alibi and mask. */
function biased(
  score: number,
  row: Row,
  j: number,
  bias: number,
  { alibiSlopes }: RefAttentionOptions,
  round: Rounding,
): number {
  if (!alibiSlopes) return round(score + bias);
  const slope = alibiSlopes.data[broadcastOffset([row.b, row.h], alibiSlopes.shape)] as number;
  return round(round(score - round(slope * Math.abs(row.position - j))) + bias);
}

/** Softmax over the scores and the sink, which takes its share of the sum and has no value row. */
function probabilities(s: number[], sink: number | undefined, round: Rounding): { p: number[]; lse: number } {
  // A dead row: no key is left, so nothing is attended to.
  if (s.length === 0 && sink === undefined) return { p: [], lse: -Infinity };
  const { max, sum, exps } = rowStatistics(sink === undefined ? s : [...s, sink], round);
  return { p: exps.map((e) => round(e / sum)), lse: round(max + round(Math.log(sum))) };
}

export interface View {
  data: Float64Array;
  batch: number;
  heads: number;
  length: number;
  width: number;
  /** Flat position of the row (b, h, i). */
  at: (b: number, h: number, i: number) => number;
}

/** A tensor seen as [batch, heads, length, width], whatever the order of its axes in memory. */
export function view({ data, shape }: RefTensor, layout: "bhld" | "blhd"): View {
  const batch = sizeOf(shape.slice(0, -3));
  const [outer = 1, inner = 1, width = 1] = shape.length > 2 ? shape.slice(-3) : [1, ...shape];
  const [heads, length] = layout === "bhld" ? [outer, inner] : [inner, outer];
  const at = (b: number, h: number, i: number): number => {
    const row = layout === "bhld" ? h * length + i : i * heads + h;
    return ((batch === 1 ? 0 : b) * heads * length + row) * width;
  };
  return { data: Float64Array.from(data), batch, heads, length, width, at };
}

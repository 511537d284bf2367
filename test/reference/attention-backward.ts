import { addScaled, attention, dot, type RefAttentionOptions, rowAt, view, weighRow } from "./attention.ts";
import { float64, type RefTensor, type Rounding } from "./rounding.ts";
import { broadcastOffset, sizeOf } from "./shapes.ts";

export interface RefGradients {
  readonly dQuery: RefTensor;
  readonly dKey: RefTensor;
  readonly dValue: RefTensor;
  readonly dAttnMask?: RefTensor;
  readonly dSinks?: RefTensor;
}

/**
 * Gradients of sum(dOut * out) + sum(dLse * lse), one row (b, h, i) of weights p_j at a time, m_j being the factor of
 * dropout:
 *
 *   dp_j = dOut . v_j                      D = sum_j p_j m_j dp_j - dLse, or the same but for the rounding
 *                                          D = dOut . out - dLse (deltaFromOut, as FlashAttention has it)
 *   ds_j = p_j (m_j dp_j - D)              dAttnMask_j += ds_j,  dSink -= p_sink D
 *   ds_j *= 1 - (s_j / softcap)^2          s_j the capped score
 *   dQuery += scale ds_j k_j   dKey_j += scale ds_j q   dValue_j += m_j p_j dOut
 */
export function attentionBackward(
  operands: {
    dOut: RefTensor;
    dLse?: RefTensor | undefined;
    query: RefTensor;
    key: RefTensor;
    value: RefTensor;
  },
  options: RefAttentionOptions & { readonly deltaFromOut?: boolean | undefined } = {},
  round: Rounding = float64,
): RefGradients {
  const layout = options.layout ?? "bhld";
  const { query, key, value } = operands;
  const [q, k, v, dO] = [query, key, value, operands.dOut].map((t) => view(t, layout)) as [
    View,
    View,
    View,
    View,
  ];
  const [dQ, dK, dV] = [query, key, value].map(({ data }) => new Float64Array(data.length)) as [
    Float64Array,
    Float64Array,
    Float64Array,
  ];
  const dMask = options.attnMask ? new Float64Array(options.attnMask.data.length) : undefined;
  const dSinks = options.sinks ? new Float64Array(options.sinks.data.length) : undefined;
  const scale = round(options.scale ?? 1 / Math.sqrt(q.width));
  const { softcap = 0 } = options;
  const add = (to: Float64Array, at: number, x: number): void => {
    to[at] = round((to[at] as number) + x);
  };

  for (let b = 0; b < dO.batch; b++) {
    for (let h = 0; h < q.heads; h++) {
      for (let i = 0; i < q.length; i++) {
        const row = rowAt(b, h, i, q.length, k.length, options);
        const { hKv, keys, pSink } = weighRow(row, q, k, options, round);
        const [at, from] = [q.at(b, h, i), dO.at(b, h, i)];
        const dp = keys.map(({ j, keep }) =>
          round(keep * dot(v.width, 1, dO.data, from, v.data, v.at(b, hKv, j), round)),
        );
        const dLse = operands.dLse ? (operands.dLse.data[(b * q.heads + h) * q.length + i] as number) : 0;
        const out = new Float64Array(v.width);
        for (const { j, p, keep } of keys) {
          addScaled(v.width, round(p * keep), v.data, v.at(b, hKv, j), out, round);
        }
        const sum = options.deltaFromOut
          ? dot(v.width, 1, dO.data, from, out, 0, round)
          : keys.reduce((total, { p }, n) => round(total + round(p * (dp[n] as number))), 0);
        const D = round(sum - dLse);
        keys.forEach(({ j, capped, p, keep }, n) => {
          let ds = round(p * round((dp[n] as number) - D));
          if (dMask && options.attnMask) add(dMask, maskOffset(options.attnMask.shape, b, h, i, j), ds);
          if (softcap > 0) ds = round(ds * round(1 - round(capped / softcap) ** 2));
          const scaled = round(scale * ds);
          addScaled(q.width, scaled, k.data, k.at(b, hKv, j), dQ.subarray(at), round);
          addScaled(q.width, scaled, q.data, at, dK.subarray(k.at(b, hKv, j)), round);
          addScaled(v.width, round(keep * p), dO.data, from, dV.subarray(v.at(b, hKv, j)), round);
        });
        if (dSinks) add(dSinks, h, -round(pSink * D));
      }
    }
  }
  const like = (data: Float64Array, { shape }: { shape: readonly number[] }): RefTensor => ({ data, shape });
  return {
    dQuery: like(dQ, query),
    dKey: like(dK, key),
    dValue: like(dV, value),
    ...(dMask && options.attnMask ? { dAttnMask: like(dMask, options.attnMask) } : {}),
    ...(dSinks && options.sinks ? { dSinks: like(dSinks, options.sinks) } : {}),
  };
}

type View = ReturnType<typeof view>;

/** Flat position in a mask that is broadcast right-aligned. */
function maskOffset(shape: readonly number[], b: number, h: number, i: number, j: number): number {
  const axes = [sizeOf(shape.slice(0, -3)), ...shape.slice(-3)].slice(shape.length < 4 ? 1 : 0);
  return broadcastOffset([b, h, i, j], axes);
}

/** sum(dOut * out) + sum(dLse * lse): what the gradients are those of. */
export function objective(
  operands: {
    dOut: RefTensor;
    dLse?: RefTensor | undefined;
    query: RefTensor;
    key: RefTensor;
    value: RefTensor;
  },
  options: RefAttentionOptions,
): number {
  const { out, lse } = attention(operands.query, operands.key, operands.value, options);
  const product = (x: RefTensor, y: RefTensor): number => {
    let sum = 0;
    for (let i = 0; i < x.data.length; i++) {
      if (Number.isFinite(y.data[i])) sum += (x.data[i] as number) * (y.data[i] as number);
    }
    return sum;
  };
  return product(operands.dOut, out) + (operands.dLse ? product(operands.dLse, lse) : 0);
}

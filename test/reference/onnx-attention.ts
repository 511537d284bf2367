import { float64, type RefTensor, type Rounding } from "./rounding.ts";
import { broadcastOffset } from "./shapes.ts";
import { softmaxRow } from "./softmax.ts";

/** Attributes of ai.onnx Attention and the operator set; a float attribute is a float32. */
export type OnnxAttentionAttributes = Readonly<Record<string, number>>;

/** Inputs by their names. A boolean mask says so. */
export interface OnnxAttentionInputs {
  readonly Q: RefTensor;
  readonly K: RefTensor;
  readonly V: RefTensor;
  readonly attn_mask?: (RefTensor & { readonly isBoolean: boolean }) | undefined;
  readonly past_key?: RefTensor | undefined;
  readonly past_value?: RefTensor | undefined;
  readonly nonpad_kv_seqlen?: RefTensor | undefined;
}

export type OnnxAttentionOutputs = Record<
  "Y" | "present_key" | "present_value" | "qk_matmul_output",
  RefTensor
>;

/**
 * ai.onnx Attention as its documentation tells it, element by element, with all four outputs and without the options of
 * this package:
 *
 *   step 1   Q, K, V as [batch, heads, length, width]; past before K and V
 *   step 2   s = scale (q . k);  with scaleQuery the query is scaled first
 *   step 3   s = softcap tanh(s / softcap)
 *   step 4   s = s + bias; the bias is the mask, -Infinity for what causality, a window or the padding hides
 *   step 5   p = softmax(s), or 0 where all of the bias is -Infinity
 *   step 6   y = p . v over what the bias leaves
 */
export function onnxAttention(
  attributes: OnnxAttentionAttributes,
  inputs: OnnxAttentionInputs,
  round: Rounding = float64,
  scaleQuery = false,
): OnnxAttentionOutputs {
  const { softcap = 0, qk_matmul_output_mode: mode = 0 } = attributes;
  // step 1
  const q = headsFirst(inputs.Q, attributes.q_num_heads);
  const k = join(inputs.past_key, headsFirst(inputs.K, attributes.kv_num_heads));
  const v = join(inputs.past_value, headsFirst(inputs.V, attributes.kv_num_heads));
  const [batch, heads, lq, d] = q.shape as Four;
  const [, kvHeads, keys, dv] = v.shape as Four;
  const scale = round(attributes.scale ?? 1 / Math.sqrt(d));
  const [before, after] = scaleQuery ? [scale, 1] : [1, scale];

  const y = new Float64Array(batch * heads * lq * dv);
  const qk = new Float64Array(batch * heads * lq * keys);
  for (let row = 0; row < batch * heads * lq; row++) {
    const [b, h, i] = [Math.floor(row / (heads * lq)), Math.floor(row / lq) % heads, row % lq];
    const kv = b * kvHeads + Math.floor((h * kvHeads) / heads);
    const bias = Array.from({ length: keys }, (_, j) => biasAt(attributes, inputs, lq, keys, [b, h, i, j]));
    // step 2, 3 and 4
    const raw = bias.map((_, j) => {
      let sum = 0;
      for (let c = 0; c < d; c++) {
        const x = round(before * (q.data[row * d + c] as number));
        sum = round(sum + round(x * (k.data[(kv * keys + j) * d + c] as number)));
      }
      return round(after * sum);
    });
    const capped = raw.map((s) => (softcap > 0 ? round(softcap * round(Math.tanh(round(s / softcap)))) : s));
    const biased = capped.map((s, j) => (bias[j] === -Infinity ? -Infinity : round(s + (bias[j] as number))));
    // step 5
    const isDead = bias.every((x) => x === -Infinity);
    const p = isDead ? bias.map(() => 0) : softmaxRow(biased, round);
    qk.set([raw, capped, biased, p][mode] as number[], row * keys);
    // step 6
    for (let j = 0; j < keys; j++) {
      if (bias[j] === -Infinity) continue;
      for (let c = 0; c < dv; c++) {
        const term = round((p[j] as number) * (v.data[(kv * keys + j) * dv + c] as number));
        y[row * dv + c] = round((y[row * dv + c] as number) + term);
      }
    }
  }
  const Y = { data: y, shape: [batch, heads, lq, dv] };
  return {
    Y: inputs.Q.shape.length === 3 ? headsLast(Y) : Y,
    present_key: k,
    present_value: v,
    qk_matmul_output: { data: qk, shape: [batch, heads, lq, keys] },
  };
}

type Four = [number, number, number, number];

/** What is added to the score of one query and key; -Infinity hides the key. */
function biasAt(
  attributes: OnnxAttentionAttributes,
  { attn_mask: mask, past_key: past, nonpad_kv_seqlen: nonpad }: OnnxAttentionInputs,
  lq: number,
  keys: number,
  [b, h, i, j]: Four,
): number {
  const {
    opset = 25,
    is_causal = 0,
    left_window_size: left = -1,
    right_window_size: right = -1,
  } = attributes;
  const length = nonpad ? (nonpad.data[b] as number) : keys;
  const position = i + (nonpad ? length - lq : (past?.shape[2] ?? 0));
  if (j >= length || (is_causal === 1 && j > position)) return -Infinity;
  if ((left >= 0 && j < position - left) || (right >= 0 && j > position + right)) return -Infinity;
  if (!mask) return 0;
  const last = mask.shape.at(-1) as number;
  // From 24 on a mask that is shorter than the keys hides the rest, also if it has one column.
  if (opset >= 24 && j >= last) return -Infinity;
  const column = last === 1 ? 0 : j;
  const rows = mask.shape.slice(0, -1);
  const index = [b, h, i].slice(3 - rows.length);
  const value = mask.data[broadcastOffset(index, rows) * last + column] as number;
  return mask.isBoolean ? (value === 0 ? -Infinity : 0) : value;
}

/** Rank 3 is [batch, length, heads * width] with the heads outermost. */
function headsFirst(x: RefTensor, heads: number | undefined): RefTensor {
  if (x.shape.length === 4) return x;
  const [batch, length, width] = x.shape as [number, number, number];
  return swap({ data: x.data, shape: [batch, length, heads as number, width / (heads as number)] });
}

function headsLast(x: RefTensor): RefTensor {
  const { data, shape } = swap(x);
  const [batch, length, heads, width] = shape as Four;
  return { data, shape: [batch, length, heads * width] };
}

/** [b, m, n, width] to [b, n, m, width]. */
function swap({ data, shape }: RefTensor): RefTensor {
  const [b, m, n, width] = shape as Four;
  const at = (bi: number, mi: number, ni: number, c: number): number => ((bi * m + mi) * n + ni) * width + c;
  const swapped: number[] = [];
  for (let bi = 0; bi < b; bi++)
    for (let ni = 0; ni < n; ni++)
      for (let mi = 0; mi < m; mi++)
        for (let c = 0; c < width; c++) swapped.push(data[at(bi, mi, ni, c)] as number);
  return { data: Float64Array.from(swapped), shape: [b, n, m, width] };
}

/** The past, where there is one, and what is new behind it, along the lengths. */
function join(past: RefTensor | undefined, added: RefTensor): RefTensor {
  if (!past) return added;
  const [b, h, l2, width] = added.shape as Four;
  const l1 = past.shape[2] as number;
  const data: number[] = [];
  for (let bh = 0; bh < b * h; bh++) {
    for (let i = 0; i < l1 * width; i++) data.push(past.data[bh * l1 * width + i] as number);
    for (let i = 0; i < l2 * width; i++) data.push(added.data[bh * l2 * width + i] as number);
  }
  return { data: Float64Array.from(data), shape: [b, h, l1 + l2, width] };
}

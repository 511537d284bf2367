import type { RefAttentionOptions, RefMask } from "../reference/attention.ts";
import type { TestTensor } from "../reference/random.ts";
import type { RefTensor } from "../reference/rounding.ts";
import { type Case, expectKnown, input, makeCase, toFloat32 } from "./case.ts";
import type { CaseFile, CaseTensor } from "./data.ts";

/** ONNX Attention 23 to 25 in the terms of scaledDotProductAttention. */
export function onnxAttention(file: CaseFile): Case {
  const attributes = (file.attributes ?? {}) as Record<string, number>;
  expectKnown(file, "inputs", Object.keys(file.inputs), inputNames);
  expectKnown(file, "attributes", Object.keys(attributes), attributeNames);
  const { softcap = 0, left_window_size: left = -1, right_window_size: right = -1 } = attributes;
  const hasWindow = left >= 0 || right >= 0;

  const operands = readOperands(file, attributes);
  const { lk, lq, pastLength } = operands;
  const isCausal = attributes.is_causal === 1;
  const nonpad = file.inputs.nonpad_kv_seqlen;
  const options: RefAttentionOptions = {
    attnMask: readMask(file, lk),
    isCausal,
    ...(attributes.scale === undefined ? {} : { scale: Math.fround(attributes.scale) }),
    ...(operands.blhd ? { layout: "blhd" as const } : {}),
    ...(nonpad ? { kvLengths: Int32Array.from(nonpad.data) } : {}),
    ...(isCausal || hasWindow ? { queryOffset: offset(nonpad, pastLength, lq) } : {}),
    ...(softcap > 0 ? { softcap: Math.fround(softcap) } : {}),
    ...(hasWindow ? { windowSize: [left, right] as const } : {}),
  };

  const features = [softcap > 0 && "softcap", hasWindow && "windowSize"];
  return makeCase("onnx", file, {
    features: features.filter((feature) => typeof feature === "string"),
    leftBy: { qk_matmul_output: "qk_matmul_output" },
    operands: [operands.q, operands.k, operands.v],
    compute: (engine, [q, k, v]) => {
      const [query, key, value] = [q, k, v] as [TestTensor, TestTensor, TestTensor];
      const Y = operands.restore(engine.attention(query, key, value, options).out);
      // The cache is the adapter's own work: past and new, joined.
      return "present_key" in file.outputs ? { Y, present_key: key, present_value: value } : { Y };
    },
  });
}

const inputNames = ["Q", "K", "V", "attn_mask", "past_key", "past_value", "nonpad_kv_seqlen"];
const attributeNames = [
  "is_causal",
  "scale",
  "softcap",
  "q_num_heads",
  "kv_num_heads",
  "left_window_size",
  "right_window_size",
  // Said of the softmax inside, which here is float32 whatever is asked for.
  "softmax_precision",
  // Says which scores qk_matmul_output holds, and that output is left.
  "qk_matmul_output_mode",
];

/** Past length with a cache inside, nonpad - lq with one outside, otherwise 0; never clamped. */
function offset(nonpad: CaseTensor | undefined, pastLength: number, lq: number): number | Int32Array {
  return nonpad ? Int32Array.from(nonpad.data, (n) => n - lq) : pastLength;
}

interface Operands {
  q: TestTensor;
  k: TestTensor;
  v: TestTensor;
  lq: number;
  lk: number;
  pastLength: number;
  /** Whether they are [batch, length, heads, width]. */
  blhd: boolean;
  /** Brings the output to the rank of the inputs. */
  restore: (out: RefTensor) => RefTensor;
}

/**
 * Rank 3 is [batch, length, heads * width], heads outermost, which is the layout blhd by another name. The
 * past is always [batch, heads, length, width]; it goes before the new keys and values, and then
 * everything is brought to that order.
 */
function readOperands(file: CaseFile, attributes: Record<string, number>): Operands {
  const [q, k, v] = [input(file, "Q"), input(file, "K"), input(file, "V")];
  const isPacked = q.shape.length === 3;
  const heads = (t: TestTensor, n: string): TestTensor =>
    isPacked ? splitHeads(t, attributes[n] as number) : t;
  const split = { q: heads(q, "q_num_heads"), k: heads(k, "kv_num_heads"), v: heads(v, "kv_num_heads") };

  if (!file.inputs.past_key) {
    const [lq, lk] = [split.q, split.k].map((t) => t.shape[isPacked ? 1 : 2]) as [number, number];
    const restore = (out: RefTensor): RefTensor => (isPacked ? mergeHeads(out) : out);
    return { ...split, lq, lk, pastLength: 0, blhd: isPacked, restore };
  }

  const bhld = (t: TestTensor): TestTensor => (isPacked ? toFloat32(swapLengthAndHeads(t)) : t);
  const past = input(file, "past_key");
  const all = {
    q: bhld(split.q),
    k: concatLengths(past, bhld(split.k)),
    v: concatLengths(input(file, "past_value"), bhld(split.v)),
  };
  const restore = (out: RefTensor): RefTensor => (isPacked ? mergeHeads(swapLengthAndHeads(out)) : out);
  const [lq, lk, pastLength] = [all.q, all.k, past].map((t) => t.shape[2]) as [number, number, number];
  return { ...all, lq, lk, pastLength, blhd: false, restore };
}

function splitHeads({ data, shape }: TestTensor, heads: number): TestTensor {
  const [batch, length, width] = shape as [number, number, number];
  return { data, shape: [batch, length, heads, width / heads] };
}

function mergeHeads({ data, shape }: RefTensor): RefTensor {
  const [batch, length, heads, width] = shape as [number, number, number, number];
  return { data, shape: [batch, length, heads * width] };
}

/** [b, m, n, width] to [b, n, m, width]. */
function swapLengthAndHeads({ data, shape }: RefTensor): RefTensor {
  const [b, m, n, width] = shape as [number, number, number, number];
  const swapped = new Float64Array(data.length);
  for (let row = 0; row < b * m * n; row++) {
    const [bi, mi, ni] = [Math.floor(row / (m * n)), Math.floor(row / n) % m, row % n];
    for (let c = 0; c < width; c++)
      swapped[((bi * n + ni) * m + mi) * width + c] = data[row * width + c] as number;
  }
  return { data: swapped, shape: [b, n, m, width] };
}

/** Joins [b, h, l1, width] and [b, h, l2, width] along the lengths. */
function concatLengths(first: TestTensor, second: TestTensor): TestTensor {
  const [b, h, l1, width] = first.shape as [number, number, number, number];
  const l2 = second.shape[2] as number;
  const data: number[] = [];
  for (let bh = 0; bh < b * h; bh++) {
    data.push(...first.data.subarray(bh * l1 * width, (bh + 1) * l1 * width));
    data.push(...second.data.subarray(bh * l2 * width, (bh + 1) * l2 * width));
  }
  return { data: Float32Array.from(data), shape: [b, h, l1 + l2, width] };
}

/** A mask shorter than the keys ends in "not attended"; a last axis of 1 is short, not broadcast. */
function readMask(file: CaseFile, lk: number): RefMask | undefined {
  const tensor = file.inputs.attn_mask;
  if (!tensor) return undefined;
  const isBoolean = tensor.dtype === "bool";
  const length = tensor.shape.at(-1) as number;
  const shape = [...tensor.shape.slice(0, -1), lk];
  const data: number[] = [];
  for (let row = 0; row < tensor.data.length / length; row++) {
    for (let j = 0; j < lk; j++) {
      const padding = isBoolean ? 0 : -Infinity;
      data.push(j < length ? (tensor.data[row * length + j] as number) : padding);
    }
  }
  return { data: isBoolean ? Uint8Array.from(data) : Float32Array.from(data), shape };
}

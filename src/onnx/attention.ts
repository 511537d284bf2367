// Attention of ai.onnx, versions 23, 24 and 25, over the fused attention of the package.
import type { Runtime } from "../runtime.ts";
import type { Tensor } from "../types/tensor.ts";
import { coreOptions, type Problem, readProblem } from "./attention-problem.ts";
import { scoresOf } from "./attention-scores.ts";
import { type Operator, readCall, readInteger } from "./schema.ts";
import { concatLengths, type Floats, swapMiddle } from "./tensors.ts";
import type {
  AttentionAttributes,
  AttentionInputs,
  AttentionOnnxOptions,
  AttentionOutputName,
  AttentionOutputs,
} from "./types.ts";

const ATTRIBUTES = [
  "opset",
  "is_causal",
  "kv_num_heads",
  "q_num_heads",
  "qk_matmul_output_mode",
  "scale",
  "softcap",
  "softmax_precision",
];
const INPUTS = ["Q", "K", "V", "attn_mask", "past_key", "past_value"];
const WITH_LENGTHS = [...INPUTS, "nonpad_kv_seqlen"];

const ATTENTION: Operator = {
  fn: "attention",
  name: "Attention",
  versions: [
    { since: 23, attributes: ATTRIBUTES, inputs: INPUTS, required: 3 },
    { since: 24, attributes: ATTRIBUTES, inputs: WITH_LENGTHS, required: 3 },
    {
      since: 25,
      attributes: [...ATTRIBUTES, "left_window_size", "right_window_size"],
      inputs: WITH_LENGTHS,
      required: 3,
    },
  ],
  output: "Y",
  optional: ["present_key", "present_value", "qk_matmul_output"],
};

/** Copies of all that a second call reads: the first may grow the memory, and what is a view of it is then detached. */
function owned(problem: Problem): Problem {
  const copy = ({ data, shape }: Floats): Floats => ({ data: data.slice(), shape });
  const { mask } = problem;
  return {
    ...problem,
    q: copy(problem.q),
    k: copy(problem.k),
    mask: mask && { ...mask, data: mask.data.slice() },
  };
}

/** Y in the rank of Q. */
function compute(runtime: Runtime, problem: Problem): Tensor {
  const { sizes, isPacked, layout, q, k, v } = problem;
  const { batch, heads, lq, dv } = sizes;
  const out = runtime.scaledDotProductAttention(q, k, v, coreOptions(problem));
  if (!isPacked) return out;
  const { data } = layout === "bhld" ? swapMiddle(out) : out;
  return { data, shape: [batch, lq, heads * dv] };
}

/** K or V of rank 4 with the heads first, the past before it: a tensor of its own. */
function present({ hasPast, layout, sizes }: Problem, x: Floats): Tensor {
  if (hasPast) return x as Tensor; // made by the concatenation
  const headsFirst = layout === "blhd" ? swapMiddle(x) : x;
  const none = { data: new Float32Array(0), shape: [sizes.batch, sizes.kvHeads, 0, x.shape[3]!] };
  return concatLengths(none, headsFirst);
}

/**
 * Attention of ai.onnx in its versions 23, 24 and 25: softmax(scale * Q K' + bias) V for each head.
 *
 * Q, K and V are [B, heads, L, D] or, with q_num_heads and kv_num_heads, [B, L, heads * D]; Y has the rank of Q. Query i
 * stands at i + the length of past_key, or at i + nonpad_kv_seqlen - Lq, or at i; is_causal and windows measure from
 * there. A row that sees no key is 0. Y is computed tile by tile; only qk_matmul_output stores the scores. Results are
 * plain float32 tensors, whatever the inputs are.
 *
 * @throws {TypeError} for an unknown attribute, input or output, one of another version, one that is missing, a wrong
 *   type, and inputs that exclude each other.
 * @throws {RangeError} for shapes that do not fit each other, values outside their range, and exhausted memory.
 * @see https://onnx.ai/onnx/operators/onnx__Attention.html
 * @example
 * const { Y, present_key, present_value } = attention({ is_causal: 1 }, { Q, K, V, past_key, past_value });
 */
export function attention<const Name extends AttentionOutputName = never>(
  attributes: AttentionAttributes,
  inputs: AttentionInputs,
  options?: AttentionOnnxOptions<Name>,
): AttentionOutputs & { [name in Name]: Tensor } {
  const call = readCall(ATTENTION, attributes, inputs, options);
  const mode = readInteger(call, "qk_matmul_output_mode", 0, 0, 3);
  const read = readProblem(call);
  const wants = (name: AttentionOutputName): boolean =>
    call.outputs?.has(name) ?? (read.hasPast && name !== "qk_matmul_output");

  const problem = wants("qk_matmul_output") ? owned(read) : read;
  const presents: Partial<AttentionOutputs> = {};
  if (wants("present_key")) presents.present_key = present(read, read.k);
  if (wants("present_value")) presents.present_value = present(read, read.v);
  const outputs: AttentionOutputs = { Y: compute(call.runtime, problem), ...presents };
  if (wants("qk_matmul_output")) outputs.qk_matmul_output = scoresOf(call.runtime, problem, mode);
  return outputs as AttentionOutputs & { [name in Name]: Tensor };
}

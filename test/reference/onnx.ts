import { matmul } from "./matmul.ts";
import { layerNorm, rmsNorm } from "./norm.ts";
import { onnxAttention } from "./onnx-attention.ts";
import { rotaryEmbedding } from "./rotary.ts";
import type { RefTensor, Rounding } from "./rounding.ts";
import { broadcastOffset, indices } from "./shapes.ts";
import { logSoftmax, logSumExp, softmax } from "./softmax.ts";

/** An input of an ONNX case; whether it is boolean matters to masks. */
export type OnnxInput = RefTensor & { readonly isBoolean: boolean };

type Attributes = Readonly<Record<string, number>>;
type Inputs = Readonly<Record<string, OnnxInput>>;

/** Operators of ONNX by their names: inputs and outputs by those of the schema, absent attributes by its defaults. */
export type OnnxOperator = (
  attributes: Attributes,
  inputs: Inputs,
  round: Rounding,
  /** Takes the second of two plain forms, where there are two. */
  other: boolean,
) => Record<string, RefTensor>;

/** An input that the schema requires. */
function need(inputs: Inputs, name: string): OnnxInput {
  const tensor = inputs[name];
  if (!tensor) throw new Error(`input ${name} is not there`);
  return tensor;
}

/** y = scale x + bias, both broadcast one way to x. */
function affine(x: RefTensor, scale: RefTensor, bias: RefTensor | undefined, round: Rounding): RefTensor {
  const data = Array.from(indices(x.shape), (index, at) => {
    const scaled = round(
      (x.data[at] as number) * (scale.data[broadcastOffset(index, scale.shape)] as number),
    );
    return bias ? round(scaled + (bias.data[broadcastOffset(index, bias.shape)] as number)) : scaled;
  });
  return { data, shape: x.shape };
}

export const onnxOperators: Readonly<Record<string, OnnxOperator>> = {
  Attention: (attributes, inputs, round, other) => {
    const [Q, K, V] = [need(inputs, "Q"), need(inputs, "K"), need(inputs, "V")];
    return onnxAttention(attributes, { ...inputs, Q, K, V }, round, other);
  },

  Softmax: ({ axis = -1 }, inputs, round) => ({ output: softmax(need(inputs, "input"), axis, round) }),

  LogSoftmax: ({ axis = -1 }, inputs, round) => ({ output: logSoftmax(need(inputs, "input"), axis, round) }),

  ReduceLogSumExp: ({ keepdims = 1, noop_with_empty_axes: noop = 0 }, inputs, round) => {
    const data = need(inputs, "data");
    const axes = Array.from(inputs.axes?.data ?? []);
    const all = axes.length > 0 || noop === 1 ? axes : [...data.shape.keys()];
    return { reduced: logSumExp(data, all, keepdims === 1, round) };
  },

  MatMul: (_, inputs, round) => ({ Y: matmul(need(inputs, "A"), need(inputs, "B"), {}, round) }),

  Gemm: ({ alpha = 1, beta = 1, transA = 0, transB = 0 }, inputs, round) => {
    const options = { alpha, beta, transposeA: transA === 1, transposeB: transB === 1 };
    const c = inputs.C ? { c: inputs.C } : {};
    return { Y: matmul(need(inputs, "A"), need(inputs, "B"), { ...options, ...c }, round) };
  },

  LayerNormalization: ({ axis = -1, epsilon = 1e-5 }, inputs, round) => {
    const { out, mean, rstd } = layerNorm(need(inputs, "X"), { axis, eps: epsilon }, round);
    return { Y: affine(out, need(inputs, "Scale"), inputs.B, round), Mean: mean, InvStdDev: rstd };
  },

  RMSNormalization: ({ axis = -1, epsilon = 1e-5 }, inputs, round) => {
    const out = rmsNorm(need(inputs, "X"), { axis, eps: epsilon }, round);
    return { Y: affine(out, need(inputs, "scale"), undefined, round) };
  },

  RotaryEmbedding: (attributes, inputs, round) => {
    const { interleaved = 0, num_heads: heads = 0, rotary_embedding_dim: rotaryDim = 0 } = attributes;
    const { data, shape } = need(inputs, "X");
    const ids = inputs.position_ids;
    // Rank 3 is [batch, length, heads * width].
    const [batch = 0, length = 0, width = 0] = shape;
    const isPacked = shape.length === 3;
    const x = isPacked ? { data, shape: [batch, length, heads, width / heads] } : { data, shape };
    const options = {
      interleaved: interleaved === 1,
      ...(isPacked ? { layout: "blhd" as const } : {}),
      ...(rotaryDim > 0 ? { rotaryDim } : {}),
      ...(ids ? { positionIds: Int32Array.from(ids.data) } : {}),
    };
    const turned = rotaryEmbedding(x, need(inputs, "cos_cache"), need(inputs, "sin_cache"), options, round);
    return { Y: { data: turned.data, shape } };
  },
};

// LayerNormalization and RMSNormalization of ai.onnx.
import { broadcast, copyBroadcast } from "../broadcast.ts";
import { sameShape, showShape, sizeOf } from "../shapes.ts";
import type { Shape, Tensor } from "../types/tensor.ts";
import { type Call, checkPrecision, type Operator, readCall, readFloat, readInteger } from "./schema.ts";
import { type Floats, readFloats } from "./tensors.ts";
import type {
  FloatTensor,
  LayerNormalizationOptions,
  LayerNormalizationOutputName,
  LayerNormalizationOutputs,
  NormalizationAttributes,
  OnnxOptions,
} from "./types.ts";

const ATTRIBUTES = ["opset", "axis", "epsilon", "stash_type"];

const LAYER_NORMALIZATION: Operator = {
  fn: "layerNormalization",
  name: "LayerNormalization",
  versions: [{ since: 17, attributes: ATTRIBUTES, inputs: ["X", "Scale", "B"], required: 2 }],
  output: "Y",
  optional: ["Mean", "InvStdDev"],
};
const RMS_NORMALIZATION: Operator = {
  fn: "rmsNormalization",
  name: "RMSNormalization",
  versions: [{ since: 23, attributes: ATTRIBUTES, inputs: ["X", "scale"], required: 2 }],
  output: "Y",
};

/** The input and the attributes of either. */
function readNormalization(call: Call): { x: Floats; axis: number; eps: number } {
  const x = readFloats(call.fn, "X", call.inputs.X);
  const rank = x.shape.length;
  const axis = readInteger(call, "axis", -1, -rank, rank - 1);
  const eps = readFloat(call, "epsilon", Math.fround(1e-5));
  if (eps < 0) throw new RangeError(`${call.fn}: epsilon must be 0 or more, got ${eps}`);
  checkPrecision(call, "stash_type");
  return { x, axis: axis < 0 ? axis + rank : axis, eps };
}

/** A scale or bias, which broadcasts one way to x. */
function readFactor(call: Call, name: string, { shape }: Floats): Floats | undefined {
  if (call.inputs[name] === undefined) return undefined;
  const factor = readFloats(call.fn, name, call.inputs[name]);
  if (!sameShape(broadcast(factor.shape, shape) ?? [], shape)) {
    throw new RangeError(
      `${call.fn}: ${name} must broadcast to X ${showShape(shape)}, got ${showShape(factor.shape)}`,
    );
  }
  return factor;
}

/** The tensor with each axis as long as that of `shape`, to which it broadcasts. */
function expand({ data, shape: from }: Floats, shape: Shape): Tensor {
  const expanded = new Float32Array(sizeOf(shape));
  copyBroadcast(data, 0, from, shape, expanded, 0);
  return { data: expanded, shape: [...shape] };
}

/** The factor over the axes from `axis` on, as the core takes it, or undefined where it differs from row to row. */
function asWeight(factor: Floats, x: Shape, axis: number): Floats | undefined {
  const normalized = x.slice(axis);
  const padded = [...new Array<number>(x.length - factor.shape.length).fill(1), ...factor.shape];
  if (padded.slice(0, axis).some((length) => length !== 1)) return undefined;
  const shape = padded.slice(axis);
  return sameShape(factor.shape, normalized) ? factor : expand({ data: factor.data, shape }, normalized);
}

/**
 * What the core takes as weight and bias, and what is left to do after it: factors that differ from row to row are none
 * of the core's, and a bias comes after its scale.
 */
function splitFactors(scale: Floats, bias: Floats | undefined, x: Shape, axis: number) {
  const weight = asWeight(scale, x, axis);
  const added = bias && asWeight(bias, x, axis);
  const finish = (y: Tensor): Tensor => {
    if (weight === undefined) {
      const factors = expand(scale, x).data;
      for (let i = 0; i < factors.length; i++) y.data[i] = y.data[i]! * factors[i]!;
    }
    if (bias !== undefined && (weight === undefined || added === undefined)) {
      const terms = expand(bias, x).data;
      for (let i = 0; i < terms.length; i++) y.data[i] = y.data[i]! + terms[i]!;
    }
    return y;
  };
  return { weight, bias: weight && added, finish };
}

/**
 * LayerNormalization of ai.onnx, version 17: (X - mean) / sqrt(variance + epsilon) * Scale + B over the axes from `axis`
 * on. Scale and B broadcast to X.
 *
 * @throws {TypeError} for an unknown attribute, input or output, and data that is neither float32 nor float16.
 * @throws {RangeError} for an axis outside the rank, shapes that do not fit each other, and an epsilon below 0.
 * @see https://onnx.ai/onnx/operators/onnx__LayerNormalization.html
 * @example
 * const { Y, Mean } = layerNormalization({ axis: -1 }, { X, Scale, B }, { outputs: ["Mean"] });
 */
export function layerNormalization<const Name extends LayerNormalizationOutputName = never>(
  attributes: NormalizationAttributes,
  inputs: { readonly X: FloatTensor; readonly Scale: FloatTensor; readonly B?: FloatTensor | undefined },
  options?: LayerNormalizationOptions<Name>,
): LayerNormalizationOutputs & { [name in Name]: Tensor } {
  const call = readCall(LAYER_NORMALIZATION, attributes, inputs, options);
  const { x, axis, eps } = readNormalization(call);
  const scale = readFactor(call, "Scale", x)!;
  const { weight, bias, finish } = splitFactors(scale, readFactor(call, "B", x), x.shape, axis);
  const wants = (name: LayerNormalizationOutputName): boolean => call.outputs?.has(name) ?? false;
  type Outputs = LayerNormalizationOutputs & { [name in Name]: Tensor };
  if (!wants("Mean") && !wants("InvStdDev")) {
    return { Y: finish(call.runtime.layerNorm(x, { weight, bias, axis, eps })) } as Outputs;
  }
  const { out, mean, rstd } = call.runtime.layerNorm(x, { weight, bias, axis, eps, returnStats: true });
  const outputs: LayerNormalizationOutputs = { Y: finish(out) };
  if (wants("Mean")) outputs.Mean = mean;
  if (wants("InvStdDev")) outputs.InvStdDev = rstd;
  return outputs as Outputs;
}

/**
 * RMSNormalization of ai.onnx, version 23: X / sqrt(mean of X² + epsilon) * scale over the axes from `axis` on. scale
 * broadcasts to X.
 *
 * @throws as {@link layerNormalization}.
 * @see https://onnx.ai/onnx/operators/onnx__RMSNormalization.html
 * @example
 * const { Y } = rmsNormalization({ epsilon: 1e-6 }, { X, scale });
 */
export function rmsNormalization(
  attributes: NormalizationAttributes,
  inputs: { readonly X: FloatTensor; readonly scale: FloatTensor },
  options?: OnnxOptions,
): { Y: Tensor } {
  const call = readCall(RMS_NORMALIZATION, attributes, inputs, options);
  const { x, axis, eps } = readNormalization(call);
  const { weight, finish } = splitFactors(readFactor(call, "scale", x)!, undefined, x.shape, axis);
  return { Y: finish(call.runtime.rmsNorm(x, { weight, axis, eps })) };
}

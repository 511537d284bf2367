// Softmax, LogSoftmax and ReduceLogSumExp of ai.onnx.
import { describe, showShape } from "../shapes.ts";
import type { Shape, Tensor } from "../types/tensor.ts";
import { type Call, type Operator, readBit, readCall, readInteger } from "./schema.ts";
import { readFloats, readIntegers } from "./tensors.ts";
import type {
  FloatTensor,
  IntegerTensor,
  OnnxOptions,
  ReduceAttributes,
  SoftmaxAttributes,
} from "./types.ts";

/** Before version 13 the axes from `axis` on were one, which is another operator. */
const softmaxOperator = (fn: string, name: string): Operator => ({
  fn,
  name,
  versions: [{ since: 13, attributes: ["opset", "axis"], inputs: ["input"], required: 1 }],
  output: "output",
});
const SOFTMAX = softmaxOperator("softmax", "Softmax");
const LOG_SOFTMAX = softmaxOperator("logSoftmax", "LogSoftmax");

/** Before version 18 the axes were an attribute. */
const REDUCE_LOG_SUM_EXP: Operator = {
  fn: "reduceLogSumExp",
  name: "ReduceLogSumExp",
  versions: [
    {
      since: 18,
      attributes: ["opset", "keepdims", "noop_with_empty_axes"],
      inputs: ["data", "axes"],
      required: 1,
    },
  ],
  output: "reduced",
};

/** The one input and the axis of Softmax and LogSoftmax. */
function readSoftmax(call: Call): [x: { data: Float32Array; shape: Shape }, options: { axis: number }] {
  const x = readFloats(call.fn, "input", call.inputs.input);
  return [x, { axis: readInteger(call, "axis", -1, -x.shape.length, x.shape.length - 1) }];
}

/**
 * Softmax of ai.onnx, version 13: along `axis`, -1 by default.
 *
 * @throws {TypeError} for an unknown attribute or input, and data that is neither float32 nor float16.
 * @throws {RangeError} for an axis outside the rank, and data that does not fill its shape.
 * @see https://onnx.ai/onnx/operators/onnx__Softmax.html
 * @example
 * const { output } = softmax({ axis: 1 }, { input: { data: Float32Array.of(0, 0, 1, 1), shape: [2, 2] } });
 */
export function softmax(
  attributes: SoftmaxAttributes,
  inputs: { readonly input: FloatTensor },
  options?: OnnxOptions,
): { output: Tensor } {
  const call = readCall(SOFTMAX, attributes, inputs, options);
  return { output: call.runtime.softmax(...readSoftmax(call)) };
}

/**
 * LogSoftmax of ai.onnx, version 13: along `axis`, -1 by default.
 *
 * @throws as {@link softmax}.
 * @see https://onnx.ai/onnx/operators/onnx__LogSoftmax.html
 * @example
 * const { output } = logSoftmax({}, { input: { data: Float32Array.of(0, 0), shape: [2] } }); // [-0.693, -0.693]
 */
export function logSoftmax(
  attributes: SoftmaxAttributes,
  inputs: { readonly input: FloatTensor },
  options?: OnnxOptions,
): { output: Tensor } {
  const call = readCall(LOG_SOFTMAX, attributes, inputs, options);
  return { output: call.runtime.logSoftmax(...readSoftmax(call)) };
}

/** The axes to reduce. None given are all, or with noop_with_empty_axes none. */
function readAxes(call: Call, rank: number): number[] {
  const { fn, inputs } = call;
  const given = inputs.axes === undefined ? [] : [...readIntegers(fn, "axes", inputs.axes).data];
  const isNoop = readBit(call, "noop_with_empty_axes", 0);
  if (given.length === 0) return isNoop ? [] : Array.from({ length: rank }, (_, axis) => axis);
  const wrong = given.find((axis) => axis < -rank || axis >= rank);
  if (wrong !== undefined)
    throw new RangeError(`${fn}: axes must be from ${-rank} to ${rank - 1} for rank ${rank}, got ${wrong}`);
  if (new Set(given.map((axis) => (axis + rank) % rank)).size < given.length)
    throw new RangeError(
      `${fn}: axes must name each axis once, got ${showShape(given)} for rank ${describe(rank)}`,
    );
  return given;
}

/**
 * ReduceLogSumExp of ai.onnx, version 18: log(sum(exp(data))) over `axes`, by default all.
 *
 * @throws {TypeError} for an unknown attribute or input, and data of a wrong type.
 * @throws {RangeError} for an axis outside the rank or named twice, and data that does not fill its shape.
 * @see https://onnx.ai/onnx/operators/onnx__ReduceLogSumExp.html
 * @example
 * const axes = { data: BigInt64Array.of(1n), shape: [1] };
 * const { reduced } = reduceLogSumExp({ keepdims: 0 }, { data: { data: new Float32Array(6), shape: [2, 3] }, axes });
 */
export function reduceLogSumExp(
  attributes: ReduceAttributes,
  inputs: { readonly data: FloatTensor; readonly axes?: IntegerTensor | undefined },
  options?: OnnxOptions,
): { reduced: Tensor } {
  const call = readCall(REDUCE_LOG_SUM_EXP, attributes, inputs, options);
  const x = readFloats(call.fn, "data", call.inputs.data);
  const axis = readAxes(call, x.shape.length);
  return { reduced: call.runtime.logSumExp(x, { axis, keepDims: readBit(call, "keepdims", 1) }) };
}

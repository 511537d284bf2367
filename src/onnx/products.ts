// MatMul and Gemm of ai.onnx.
import { broadcast } from "../broadcast.ts";
import { sameShape, showShape } from "../shapes.ts";
import type { Shape, Tensor } from "../types/tensor.ts";
import { type Operator, readBit, readCall, readFloat } from "./schema.ts";
import { readFloats } from "./tensors.ts";
import type { FloatTensor, GemmAttributes, MatMulAttributes, OnnxOptions } from "./types.ts";

/** Its versions differ in their types alone. */
const MATMUL: Operator = {
  fn: "matMul",
  name: "MatMul",
  versions: [{ since: 1, attributes: ["opset"], inputs: ["A", "B"], required: 2 }],
  output: "Y",
};

/** From version 11 on C may be left out. */
const GEMM: Operator = {
  fn: "gemm",
  name: "Gemm",
  versions: [
    {
      since: 11,
      attributes: ["opset", "alpha", "beta", "transA", "transB"],
      inputs: ["A", "B", "C"],
      required: 2,
    },
  ],
  output: "Y",
};

/** Rows and columns of a matrix, before any transpose. */
function matrix(fn: string, name: string, shape: Shape): [rows: number, columns: number] {
  if (shape.length !== 2) throw new RangeError(`${fn}: ${name} must have rank 2, got ${showShape(shape)}`);
  return shape as unknown as [number, number];
}

/**
 * MatMul of ai.onnx: the product as numpy.matmul has it.
 *
 * @throws {TypeError} for an unknown attribute or input, and data that is neither float32 nor float16.
 * @throws {RangeError} for shapes that do not fit each other, and data that does not fill its shape.
 * @see https://onnx.ai/onnx/operators/onnx__MatMul.html
 * @example
 * const { Y } = matMul({}, { A, B });
 */
export function matMul(
  attributes: MatMulAttributes,
  inputs: { readonly A: FloatTensor; readonly B: FloatTensor },
  options?: OnnxOptions,
): { Y: Tensor } {
  const { fn, runtime, inputs: read } = readCall(MATMUL, attributes, inputs, options);
  return { Y: runtime.matmul(readFloats(fn, "A", read.A), readFloats(fn, "B", read.B)) };
}

/**
 * Gemm of ai.onnx: alpha * A' B' + beta * C, with A' and B' the matrices or by transA and transB their transposes, and C
 * broadcast to the result. beta = 0 does not read C.
 *
 * @throws {TypeError} for an unknown attribute or input, and data that is neither float32 nor float16.
 * @throws {RangeError} for shapes that do not fit each other, and data that does not fill its shape.
 * @see https://onnx.ai/onnx/operators/onnx__Gemm.html
 * @example
 * const { Y } = gemm({ transB: 1, alpha: 0.5 }, { A, B, C });
 */
export function gemm(
  attributes: GemmAttributes,
  inputs: { readonly A: FloatTensor; readonly B: FloatTensor; readonly C?: FloatTensor | undefined },
  options?: OnnxOptions,
): { Y: Tensor } {
  const call = readCall(GEMM, attributes, inputs, options);
  const { fn, inputs: read } = call;
  const [a, b] = [readFloats(fn, "A", read.A), readFloats(fn, "B", read.B)];
  const [transposeA, transposeB] = [readBit(call, "transA", 0), readBit(call, "transB", 0)];
  const sizesA = matrix(fn, "A", a.shape);
  const sizesB = matrix(fn, "B", b.shape);
  const [m, k] = transposeA ? [sizesA[1], sizesA[0]] : sizesA;
  const [kOfB, n] = transposeB ? [sizesB[1], sizesB[0]] : sizesB;
  if (k !== kOfB) {
    const shapes = `A ${showShape(a.shape)} and B ${showShape(b.shape)}`;
    throw new RangeError(`${fn}: inner lengths of A and B must be equal, got ${k} and ${kOfB}: ${shapes}`);
  }
  const alpha = readFloat(call, "alpha", 1);
  const beta = readFloat(call, "beta", 1);
  const product = { transposeA, transposeB, alpha };
  if (read.C === undefined) return { Y: call.runtime.matmul(a, b, product) };
  const c = readFloats(fn, "C", read.C);
  if (!sameShape(broadcast(c.shape, [m, n]) ?? [], [m, n]))
    throw new RangeError(`${fn}: C must broadcast to [${m}, ${n}], got ${showShape(c.shape)}`);
  return { Y: call.runtime.matmul(a, b, { ...product, c, beta }) };
}

// Gradients of matmul, out = alpha * op(a) @ op(b) + beta * c, from dOut, that of the result:
//
//   d op(a) = alpha dOut op(b)ᵀ,  d op(b) = alpha op(a)ᵀ dOut,  dC = beta dOut,
// each summed over the axes along which its operand was broadcast. A transposed operand gets the transposed product.
import { sumBroadcast } from "./broadcast.ts";
import {
  type MatmulProblem,
  multiply,
  productScratchBytes,
  readMatmul,
  type Stack,
  type Stacks,
  stacksOf,
} from "./matmul-problem.ts";
import { blockBytes } from "./memory.ts";
import { makeResults, type Result, reserve } from "./result.ts";
import { readOptions, sameShape, showShape, sizeOf } from "./shapes.ts";
import { type Core, type Operand, readOperand } from "./tensor.ts";
import type { MatmulBackwardInputs, MatmulGradients } from "./types/dense.ts";
import type { Shape } from "./types/tensor.ts";

const FN = "matmulBackward";
const INPUTS: ReadonlySet<keyof MatmulBackwardInputs> = new Set([
  "dOut",
  "a",
  "b",
  "transposeA",
  "transposeB",
  "alpha",
  "c",
  "beta",
]);

/** One gradient: the sum of left @ right over the batch entries that share a matrix of it. */
interface Product {
  left: Stack;
  right: Stack;
  /** Where each batch entry adds to, in elements. */
  outStrides: readonly number[];
}

function transposed(s: Stack): Stack {
  const { rows, columns, rowStride, columnStride } = s;
  return { ...s, rows: columns, columns: rows, rowStride: columnStride, columnStride: rowStride };
}

/** The products for dA and dB. */
function plan(
  { a, b, out: d }: Stacks,
  transposeA: boolean,
  transposeB: boolean,
): { dA: Product; dB: Product } {
  const dA = transposeA ? { left: b, right: transposed(d) } : { left: d, right: transposed(b) };
  const dB = transposeB ? { left: transposed(d), right: a } : { left: transposed(a), right: d };
  return { dA: { ...dA, outStrides: a.batchStrides }, dB: { ...dB, outStrides: b.batchStrides } };
}

/** beta times dOut, summed in float64 over the axes along which c was broadcast. beta = 0 does not read dOut. */
function writeAddendGradient(
  { kernels, memory }: Core,
  { shape, beta }: MatmulProblem,
  from: number,
  result: Result,
  to: number,
): void {
  const target = memory.floatsAt(to, result.size);
  if (beta === 0) target.fill(0);
  else if (result.size === sizeOf(shape)) kernels.scale(beta, from, to, 0, result.size);
  else {
    const sums = sumBroadcast(memory.f32, from >>> 2, shape, result.shape);
    for (let i = 0; i < sums.length; i++) target[i] = beta * sums[i]!;
  }
}

function readUpstream(core: Core, given: MatmulBackwardInputs, shape: Shape): Operand {
  const dOut = readOperand(core, FN, "dOut", given.dOut);
  if (!sameShape(dOut.shape, shape)) {
    throw new RangeError(
      `${FN}: dOut.shape must be that of the result ${showShape(shape)}, got ${showShape(dOut.shape)}`,
    );
  }
  return dOut;
}

export function matmulBackward(core: Core, given: MatmulBackwardInputs): MatmulGradients {
  const inputs = readOptions(FN, given, INPUTS);
  const problem = readMatmul(core, FN, inputs.a, inputs.b, inputs);
  const { left, right, addend, alpha } = problem;
  const dOut = readUpstream(core, inputs, problem.shape);
  const operands = [dOut, left, right];
  const resident = operands.every((o) => o.resident) && addend?.resident !== false;
  const shapes = [left.shape, right.shape, ...(addend === undefined ? [] : [addend.shape])];
  const results = makeResults(core, FN, shapes, resident);
  const { memory } = core;
  const stacks = stacksOf(problem);
  const { dA, dB } = plan(stacks, inputs.transposeA === true, inputs.transposeB === true);
  const scratch = Math.max(
    productScratchBytes(core, dA.left, dA.right),
    productScratchBytes(core, dB.left, dB.right),
  );
  let bytes = blockBytes(scratch);
  for (const operand of operands) bytes += memory.stagedBytes(operand);
  for (const result of results) bytes += result.stagedBytes();
  reserve(core, FN, bytes, results);

  const [d = 0, a = 0, b = 0] = operands.map((operand) => memory.stageOperand(operand));
  const addresses = results.map((result) => result.stage());
  const scratchAt = memory.stage(scratch);
  const products = [
    { product: dA, at: inputs.transposeA === true ? { left: b, right: d } : { left: d, right: b } },
    { product: dB, at: inputs.transposeB === true ? { left: d, right: a } : { left: a, right: d } },
  ];
  products.forEach(({ product, at }, i) => {
    const [result, out] = [results[i]!, addresses[i]!];
    const { left: x, right: y, outStrides } = product;
    if (sizeOf(stacks.batch) === 0)
      memory.floatsAt(out, result.size).fill(0); // broadcast along an axis of length 0
    else if (result.size > 0)
      multiply(core, x, y, outStrides, stacks.batch, alpha, 0, { ...at, out, scratch: scratchAt });
  });
  if (addend !== undefined) writeAddendGradient(core, problem, d, results[2]!, addresses[2]!);
  const [gradientA, gradientB, gradientC] = results.map((result, i) => result.finish(addresses[i]!));
  const gradients = { dA: gradientA!, dB: gradientB! };
  return gradientC === undefined ? gradients : { ...gradients, dC: gradientC };
}

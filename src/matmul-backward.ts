// Gradients of matmul, out = alpha * op(a) @ op(b) + beta * c, from dOut, that of the result:
//
//   d op(a) = alpha dOut op(b)ᵀ,  d op(b) = alpha op(a)ᵀ dOut,  dC = beta dOut,
// each summed over the axes along which its operand was broadcast. A transposed operand gets the transposed product.
import { type MatmulProblem, type Matrix, readMatmul, stackedRows } from "./matmul-problem.ts";
import { blockBytes } from "./memory.ts";
import { advance, broadcastStrides, readOptions, sameShape, showShape, sizeOf } from "./shapes.ts";
import { type Core, type Operand, Result, readOperand, reserve } from "./tensor.ts";
import type { MatmulBackwardInputs, MatmulGradients, Shape } from "./types.ts";

const FN = "matmulBackward";
const INPUTS: ReadonlySet<string> = new Set([
  "dOut",
  "a",
  "b",
  "transposeA",
  "transposeB",
  "alpha",
  "c",
  "beta",
]);

/** A stack of matrices in Wasm memory: batch and element strides in elements, 0 on the axes that are broadcast. */
interface Stack {
  rows: number;
  columns: number;
  rowStride: number;
  columnStride: number;
  batchStrides: readonly number[];
}

/** Matrices of `shape` (their batch axes) as they are read along the axes of the result. */
function asStack(m: Matrix, batch: Shape): Stack {
  const size = m.rows * m.columns;
  const batchStrides = broadcastStrides(m.batch, batch).map((stride) => stride * size);
  return { ...m, batchStrides };
}

function transposed(s: Stack): Stack {
  const { rows, columns, rowStride, columnStride } = s;
  return { ...s, rows: columns, columns: rows, rowStride: columnStride, columnStride: rowStride };
}

/** One gradient: the sum of left @ right over the batch entries that share a matrix of it. */
interface Product {
  left: Stack;
  right: Stack;
  /** Where each batch entry adds to, in elements. */
  outStrides: readonly number[];
}

/** The batch axes of all products, and the products for dA and dB. */
interface Plan {
  batch: Shape;
  dA: Product;
  dB: Product;
}

/**
 * Where only a is batched, and contiguous, all of its matrices are one tall matrix and so are those of dOut: each
 * gradient is one product.
 */
function plan({ a, b, batch }: MatmulProblem, transposeA: boolean, transposeB: boolean): Plan {
  const rows = stackedRows(a, b, batch);
  const isTall = rows !== a.rows;
  const axes = isTall ? [] : batch;
  const x = asStack(isTall ? { ...a, batch: [], rows } : a, axes);
  const y = asStack(isTall ? { ...b, batch: [] } : b, axes);
  const columns = b.columns;
  const d = asStack({ batch: axes, rows, columns, rowStride: columns, columnStride: 1 }, axes);
  const dA = transposeA ? { left: y, right: transposed(d) } : { left: d, right: transposed(y) };
  const dB = transposeB ? { left: transposed(d), right: x } : { left: transposed(x), right: d };
  return {
    batch: axes,
    dA: { ...dA, outStrides: x.batchStrides },
    dB: { ...dB, outStrides: y.batchStrides },
  };
}

function scratchBytes({ kernels }: Core, { left, right }: Product): number {
  const { rows, columns: depth, columnStride } = left;
  return kernels.gemmScratchBytes(rows, right.columns, depth, columnStride, right.columnStride) >>> 0;
}

const dot = (index: readonly number[], strides: readonly number[]): number =>
  index.reduce((sum, i, axis) => sum + i * strides[axis]!, 0);

/** Runs one product for each batch entry in order; all but the first that meet in one matrix are added to it. */
function multiply(
  core: Core,
  { left, right, outStrides }: Product,
  batch: Shape,
  alpha: number,
  at: { left: number; right: number; out: number; scratch: number },
): void {
  const index = new Array<number>(batch.length).fill(0);
  for (let count = sizeOf(batch); count > 0; count--) {
    const isFirst = index.every((i, axis) => i === 0 || outStrides[axis] !== 0);
    core.kernels.gemm(
      left.rows,
      right.columns,
      left.columns,
      alpha,
      at.left + dot(index, left.batchStrides) * 4,
      left.rowStride,
      left.columnStride,
      at.right + dot(index, right.batchStrides) * 4,
      right.rowStride,
      right.columnStride,
      isFirst ? 0 : 1,
      at.out + dot(index, outStrides) * 4,
      right.columns,
      at.scratch,
      0,
      left.rows,
    );
    advance(index, batch, outStrides, batch.length - 1, 0);
  }
}

/** beta times dOut, summed in float64 over the axes along which c was broadcast. beta = 0 does not read dOut. */
function writeAddendGradient(core: Core, problem: MatmulProblem, from: number, result: Result, to: number) {
  const { shape, beta } = problem;
  const { f32 } = core.memory;
  const sums = new Float64Array(result.size);
  const strides = broadcastStrides(result.shape, shape);
  const index = new Array<number>(shape.length).fill(0);
  let offset = 0;
  for (let source = from >>> 2, end = beta === 0 ? source : source + sizeOf(shape); source < end; source++) {
    sums[offset]! += f32[source]!;
    offset = advance(index, shape, strides, shape.length - 1, offset);
  }
  sums.forEach((sum, i) => {
    f32[(to >>> 2) + i] = beta * sum;
  });
}

function makeResults(core: Core, shapes: readonly Shape[], resident: boolean): Result[] {
  const results: Result[] = [];
  try {
    for (const shape of shapes)
      results.push(new Result(core, FN, [...shape], undefined, undefined, resident));
  } catch (error) {
    for (const result of results) result.abandon();
    throw error;
  }
  return results;
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
  const results = makeResults(core, shapes, resident);
  const { memory } = core;
  const { batch, dA, dB } = plan(problem, inputs.transposeA === true, inputs.transposeB === true);
  const scratch = Math.max(scratchBytes(core, dA), scratchBytes(core, dB));
  let bytes = blockBytes(scratch);
  for (const operand of operands) bytes += memory.stagedBytes(operand);
  for (const result of results) bytes += result.stagedBytes;
  reserve(core, FN, bytes, ...results);

  const [d = 0, a = 0, b = 0] = operands.map((operand) => memory.stageOperand(operand));
  const addresses = results.map((result) => result.stage());
  const scratchAt = memory.stage(scratch);
  const products = [
    { product: dA, at: inputs.transposeA === true ? { left: b, right: d } : { left: d, right: b } },
    { product: dB, at: inputs.transposeB === true ? { left: d, right: a } : { left: a, right: d } },
  ];
  products.forEach(({ product, at }, i) => {
    const [result, out] = [results[i]!, addresses[i]!];
    if (sizeOf(batch) === 0)
      memory.floatsAt(out, result.size).fill(0); // broadcast along an axis of length 0
    else if (result.size > 0) multiply(core, product, batch, alpha, { ...at, out, scratch: scratchAt });
  });
  if (addend !== undefined) writeAddendGradient(core, problem, d, results[2]!, addresses[2]!);
  const [gradientA, gradientB, gradientC] = results.map((result, i) => result.finish(addresses[i]!));
  const gradients = { dA: gradientA!, dB: gradientB! };
  return gradientC === undefined ? gradients : { ...gradients, dC: gradientC };
}

// matmul: out = alpha * op(a) @ op(b) + beta * c, batched with broadcasting (numpy.matmul, ONNX MatMul and Gemm).
import { type Matrix, readMatmul, stackedRows } from "./matmul-problem.ts";
import { blockBytes } from "./memory.ts";
import { advance, broadcastStrides, readOptions, sizeOf } from "./shapes.ts";
import { type Core, checkAlias, type Operand, Result, readOut, reserve } from "./tensor.ts";
import type { MatmulOptions, Shape, Tensor, TensorLike } from "./types.ts";

const FN = "matmul";
const OPTIONS: ReadonlySet<string> = new Set(["transposeA", "transposeB", "alpha", "beta", "c", "out"]);
const NONE: MatmulOptions = {};

/** Copies c, broadcast to `shape`, to address `to`; element i of the result reads c at its broadcast position. */
function copyBroadcast(core: Core, c: Operand, from: number, shape: Shape, to: number): void {
  const { f32 } = core.memory;
  const rank = shape.length;
  const columns = rank === 0 ? 1 : shape[rank - 1]!;
  if (columns === 0) return;
  const strides = broadcastStrides(c.shape, shape);
  const index = new Array<number>(rank).fill(0);
  const source = from >>> 2;
  const repeated = rank > 0 && strides[rank - 1] === 0;
  let offset = 0;
  for (let target = to >>> 2, end = target + sizeOf(shape); target < end; target += columns) {
    if (repeated) f32.fill(f32[source + offset]!, target, target + columns);
    else f32.copyWithin(target, source + offset, source + offset + columns);
    offset = advance(index, shape, strides, rank - 2, offset);
  }
}

interface Addresses {
  a: number;
  b: number;
  out: number;
  scratch: number;
}

/** Runs gemm for each entry of the broadcast batch, or once for rows that are stacked. */
function multiply(
  core: Core,
  a: Matrix,
  b: Matrix,
  m: number,
  batch: Shape,
  at: Addresses,
  alpha: number,
  beta: number,
): void {
  const n = b.columns;
  const k = a.columns;
  const count = m === a.rows ? sizeOf(batch) : 1;
  const stridesA = broadcastStrides(a.batch, batch);
  const stridesB = broadcastStrides(b.batch, batch);
  const indexA = new Array<number>(batch.length).fill(0);
  const indexB = new Array<number>(batch.length).fill(0);
  const last = batch.length - 1;
  for (let i = 0, offsetA = 0, offsetB = 0; i < count; i++) {
    core.kernels.gemm(
      m,
      n,
      k,
      alpha,
      at.a + offsetA * a.rows * k * 4,
      a.rowStride,
      a.columnStride,
      at.b + offsetB * k * n * 4,
      b.rowStride,
      b.columnStride,
      beta,
      at.out + i * m * n * 4,
      n,
      at.scratch,
      0,
      m,
    );
    offsetA = advance(indexA, batch, stridesA, last, offsetA);
    offsetB = advance(indexB, batch, stridesB, last, offsetB);
  }
}

export function matmul(core: Core, a: TensorLike, b: TensorLike, given: MatmulOptions = NONE): Tensor {
  const options = given === NONE ? NONE : readOptions(FN, given, OPTIONS);
  const problem = readMatmul(core, FN, a, b, options);
  const { left, right, a: ma, b: mb, batch, shape, alpha, beta, addend } = problem;
  const out = readOut(core, FN, options.out, shape);
  checkAlias(FN, out, "a", left);
  checkAlias(FN, out, "b", right);
  if (addend !== undefined) checkAlias(FN, out, "c", addend, out !== undefined && addend.size === out.size);

  const { memory, kernels } = core;
  const resident = left.resident && right.resident && (addend === undefined || addend.resident);
  const result = new Result(core, FN, shape, out, options.out, resident);
  const m = stackedRows(ma, mb, batch);
  const scratchBytes =
    kernels.gemmScratchBytes(m, mb.columns, ma.columns, ma.columnStride, mb.columnStride) >>> 0;
  const bytes =
    memory.stagedBytes(left) +
    memory.stagedBytes(right) +
    (addend === undefined ? 0 : memory.stagedBytes(addend));
  reserve(core, FN, bytes + result.stagedBytes + blockBytes(scratchBytes), result);
  const at = {
    a: memory.stageOperand(left),
    b: memory.stageOperand(right),
    out: result.stage(),
    scratch: memory.stage(scratchBytes),
  };
  if (addend !== undefined && beta !== 0)
    copyBroadcast(core, addend, memory.stageOperand(addend), shape, at.out);
  if (result.size > 0) multiply(core, ma, mb, m, batch, at, alpha, beta);
  return result.finish(at.out);
}

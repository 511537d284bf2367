// matmul: out = alpha * op(a) @ op(b) + beta * c, batched with broadcasting (numpy.matmul, ONNX MatMul and Gemm).
import { blockBytes } from "./memory.ts";
import {
  broadcast,
  broadcastStrides,
  readFlag,
  readNumber,
  readOptions,
  showShape,
  sizeOf,
} from "./shapes.ts";
import { type Core, checkAlias, type Operand, Result, readOperand, readOut, reserve } from "./tensor.ts";
import type { MatmulOptions, Shape, Tensor, TensorLike } from "./types.ts";

const FN = "matmul";
const OPTIONS: ReadonlySet<string> = new Set(["transposeA", "transposeB", "alpha", "beta", "c", "out"]);
const NONE: MatmulOptions = {};

/** One operand as a stack of matrices: [...batch, rows, columns] after the transpose. */
interface Matrix {
  batch: Shape;
  rows: number;
  columns: number;
  /** Strides of a row and a column in elements. */
  rowStride: number;
  columnStride: number;
}

/** Reads a shape as matrices. A vector is a row on the left and a column on the right, and its axis is dropped after. */
function asMatrix(name: "a" | "b", shape: Shape, transpose: boolean): Matrix {
  if (shape.length === 0) throw new RangeError(`${FN}: ${name} must have rank 1 or more, got a scalar`);
  if (shape.length === 1) {
    if (transpose)
      throw new RangeError(
        `${FN}: transpose${name.toUpperCase()} needs ${name} of rank 2 or more, got shape ${showShape(shape)}`,
      );
    const n = shape[0]!;
    return name === "a"
      ? { batch: [], rows: 1, columns: n, rowStride: n, columnStride: 1 }
      : { batch: [], rows: n, columns: 1, rowStride: 1, columnStride: n };
  }
  const batch = shape.slice(0, -2);
  const rows = shape[shape.length - 2]!;
  const columns = shape[shape.length - 1]!;
  return transpose
    ? { batch, rows: columns, columns: rows, rowStride: 1, columnStride: columns }
    : { batch, rows, columns, rowStride: columns, columnStride: 1 };
}

/** Shape of the result, or an error that names the axes that do not fit. */
function resultShape(
  a: Matrix,
  b: Matrix,
  shapeA: Shape,
  shapeB: Shape,
): { batch: number[]; shape: number[] } {
  if (a.columns !== b.rows) {
    throw new RangeError(
      `${FN}: inner lengths must be equal, got ${a.columns} of a ${showShape(shapeA)} and ${b.rows} of b ${showShape(shapeB)}`,
    );
  }
  const batch = broadcast(a.batch, b.batch);
  if (batch === undefined) {
    throw new RangeError(
      `${FN}: batch axes must broadcast, got ${showShape(a.batch)} of a and ${showShape(b.batch)} of b`,
    );
  }
  const shape = [...batch];
  if (shapeA.length > 1) shape.push(a.rows);
  if (shapeB.length > 1) shape.push(b.columns);
  return { batch, shape };
}

/** Checks that c broadcasts one way to the result. */
function checkAddend(c: Operand, shape: Shape): void {
  const fits = broadcast(c.shape, shape);
  if (
    c.shape.length > shape.length ||
    fits === undefined ||
    !fits.every((length, i) => length === shape[i])
  ) {
    throw new RangeError(
      `${FN}: c must broadcast to the result ${showShape(shape)}, got ${showShape(c.shape)}`,
    );
  }
}

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

/** Counts `index` up by one over axes 0..last and returns the offset that belongs to it. */
function advance(index: number[], shape: Shape, strides: Shape, last: number, offset: number): number {
  for (let axis = last; axis >= 0; axis--) {
    offset += strides[axis]!;
    if (++index[axis]! < shape[axis]!) return offset;
    offset -= index[axis]! * strides[axis]!;
    index[axis] = 0;
  }
  return offset;
}

/** Rows of one gemm: all of a's matrices are one tall matrix where only a is batched, and contiguous. */
function stackedRows(a: Matrix, b: Matrix, batch: Shape): number {
  const count = sizeOf(batch);
  const contiguous = a.columnStride === 1 && a.rowStride === a.columns;
  const stacks = contiguous && sizeOf(b.batch) === 1 && count === sizeOf(a.batch);
  return stacks ? a.rows * count : a.rows;
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
  const left = readOperand(core, FN, "a", a);
  const right = readOperand(core, FN, "b", b);
  const ma = asMatrix("a", left.shape, readFlag(FN, "transposeA", options.transposeA));
  const mb = asMatrix("b", right.shape, readFlag(FN, "transposeB", options.transposeB));
  const { batch, shape } = resultShape(ma, mb, left.shape, right.shape);
  const alpha = readNumber(FN, "alpha", options.alpha, 1);
  const addend = options.c === undefined ? undefined : readOperand(core, FN, "c", options.c);
  if (addend === undefined && options.beta !== undefined) {
    throw new TypeError(
      `${FN}: beta is the factor on c, but c is not given (beta = ${String(options.beta)})`,
    );
  }
  const beta = addend === undefined ? 0 : readNumber(FN, "beta", options.beta, 1);
  if (addend !== undefined) checkAddend(addend, shape);
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

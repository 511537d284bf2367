// What matmul and its gradients compute with: operands read as stacks of matrices, the shape of the product, the factors.
import { broadcast, broadcastStrides } from "./broadcast.ts";
import { type Cut, cut, WHOLE } from "./parts.ts";
import { readFlag, readNumber, showShape, sizeOf } from "./shapes.ts";
import { type Core, type Operand, readOperand } from "./tensor.ts";
import type { MatmulOptions } from "./types/dense.ts";
import type { Shape, TensorLike } from "./types/tensor.ts";

/** One operand as a stack of matrices: [...batch, rows, columns] after the transpose. */
export interface Matrix {
  batch: Shape;
  rows: number;
  columns: number;
  /** Strides of a row and a column in elements. */
  rowStride: number;
  columnStride: number;
}

/** Reads a shape as matrices. A vector is a row on the left and a column on the right, and its axis is dropped after. */
function asMatrix(fn: string, name: "a" | "b", shape: Shape, transpose: boolean): Matrix {
  if (shape.length === 0) throw new RangeError(`${fn}: ${name} must have rank 1 or more, got a scalar`);
  if (shape.length === 1) {
    if (transpose)
      throw new RangeError(
        `${fn}: transpose${name.toUpperCase()} needs ${name} of rank 2 or more, got shape ${showShape(shape)}`,
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
  fn: string,
  a: Matrix,
  b: Matrix,
  shapeA: Shape,
  shapeB: Shape,
): { batch: number[]; shape: number[] } {
  if (a.columns !== b.rows) {
    throw new RangeError(
      `${fn}: inner lengths must be equal, got ${a.columns} of a ${showShape(shapeA)} and ${b.rows} of b ${showShape(shapeB)}`,
    );
  }
  const batch = broadcast(a.batch, b.batch);
  if (batch === undefined) {
    throw new RangeError(
      `${fn}: batch axes must broadcast, got ${showShape(a.batch)} of a and ${showShape(b.batch)} of b`,
    );
  }
  const shape = [...batch];
  if (shapeA.length > 1) shape.push(a.rows);
  if (shapeB.length > 1) shape.push(b.columns);
  return { batch, shape };
}

/** Checks that c broadcasts one way to the result. */
function checkAddend(fn: string, c: Operand, shape: Shape): void {
  const fits = broadcast(c.shape, shape);
  if (
    c.shape.length > shape.length ||
    fits === undefined ||
    !fits.every((length, i) => length === shape[i])
  ) {
    throw new RangeError(
      `${fn}: c must broadcast to the result ${showShape(shape)}, got ${showShape(c.shape)}`,
    );
  }
}

/** One checked problem: out = alpha * a @ b + beta * c, a and b after their transposes. */
export interface MatmulProblem {
  left: Operand;
  right: Operand;
  a: Matrix;
  b: Matrix;
  /** Batch axes of the result, and its whole shape. */
  batch: number[];
  shape: number[];
  alpha: number;
  addend: Operand | undefined;
  /** 0 without an addend. */
  beta: number;
}

export function readMatmul(
  core: Core,
  fn: string,
  a: TensorLike,
  b: TensorLike,
  options: MatmulOptions,
): MatmulProblem {
  const left = readOperand(core, fn, "a", a);
  const right = readOperand(core, fn, "b", b);
  const ma = asMatrix(fn, "a", left.shape, readFlag(fn, "transposeA", options.transposeA));
  const mb = asMatrix(fn, "b", right.shape, readFlag(fn, "transposeB", options.transposeB));
  const { batch, shape } = resultShape(fn, ma, mb, left.shape, right.shape);
  const alpha = readNumber(fn, "alpha", options.alpha, 1);
  const addend = options.c === undefined ? undefined : readOperand(core, fn, "c", options.c);
  if (addend === undefined && options.beta !== undefined) {
    throw new TypeError(
      `${fn}: beta is the factor on c, but c is not given (beta = ${String(options.beta)})`,
    );
  }
  const beta = addend === undefined ? 0 : readNumber(fn, "beta", options.beta, 1);
  if (addend !== undefined) checkAddend(fn, addend, shape);
  return { left, right, a: ma, b: mb, batch, shape, alpha, addend, beta };
}

/** Matrices in Wasm memory as a product reads them: element strides, and batch strides with 0 where it broadcasts. */
export interface Stack {
  rows: number;
  columns: number;
  rowStride: number;
  columnStride: number;
  batchStrides: readonly number[];
}

/** What a problem multiplies: its operands and its result along the batch axes of the product. */
export interface Stacks {
  batch: Shape;
  a: Stack;
  b: Stack;
  out: Stack;
}

/** `rows` rows of the matrices as they are read along the axes of `batch`. */
function asStack(m: Matrix, rows: number, batch: Shape): Stack {
  const { columns, rowStride, columnStride } = m;
  const size = m.rows * columns;
  const strides = batch.length === 0 ? [] : broadcastStrides(m.batch, batch); // m.batch is one tall matrix there
  const batchStrides = strides.map((stride) => stride * size);
  return { rows, columns, rowStride, columnStride, batchStrides };
}

/** Where only a is batched, and contiguous, all of its matrices are one tall matrix and so are those of the result. */
export function stacksOf({ a, b, batch }: MatmulProblem): Stacks {
  const count = sizeOf(batch);
  const contiguous = a.columnStride === 1 && a.rowStride === a.columns;
  const isTall = contiguous && sizeOf(b.batch) === 1 && count === sizeOf(a.batch);
  const axes = isTall ? [] : batch;
  const rows = isTall ? a.rows * count : a.rows;
  const out = { batch, rows: a.rows, columns: b.columns, rowStride: b.columns, columnStride: 1 };
  return {
    batch: axes,
    a: asStack(a, rows, axes),
    b: asStack(b, b.rows, axes),
    out: asStack(out, rows, axes),
  };
}

/** Bytes of scratch of one gemm: an unsigned number, which JavaScript gets signed. */
export function gemmScratchBytes(
  { kernels }: Core,
  m: number,
  n: number,
  k: number,
  csA: number,
  csB: number,
): number {
  return kernels.gemmScratchBytes(m, n, k, csA, csB) >>> 0;
}

/** Bytes of scratch of `multiply`. */
export function productScratchBytes(core: Core, left: Stack, right: Stack): number {
  return gemmScratchBytes(
    core,
    left.rows,
    right.columns,
    left.columns,
    left.columnStride,
    right.columnStride,
  );
}

/** Addresses of the operands, the result and the scratch of a product. */
export interface ProductAddresses {
  left: number;
  right: number;
  out: number;
  scratch: number;
}

/** One product of an m x k and a k x n matrix, the first of each stack; the rows of the result are `ldc` apart. */
function gemm(
  { kernels }: Core,
  m: number,
  n: number,
  k: number,
  left: Stack,
  right: Stack,
  ldc: number,
  alpha: number,
  beta: number,
  at: ProductAddresses,
): void {
  kernels.gemm(
    m,
    n,
    k,
    alpha,
    at.left,
    left.rowStride,
    left.columnStride,
    at.right,
    right.rowStride,
    right.columnStride,
    beta,
    at.out,
    ldc,
    at.scratch,
    0,
    m,
  );
}

/**
 * out = alpha * left @ right + beta * out for each batch entry in order, `outStrides` saying where its matrix begins; all
 * but the first that meet in one matrix are added to it.
 */
export function multiply(
  core: Core,
  left: Stack,
  right: Stack,
  outStrides: readonly number[],
  batch: Shape,
  alpha: number,
  beta: number,
  at: ProductAddresses,
): void {
  const index = new Array<number>(batch.length).fill(0);
  const entry = { left: at.left, right: at.right, out: at.out, scratch: at.scratch };
  for (let count = sizeOf(batch); count > 0; count--) {
    let isFirst = true;
    for (let axis = 0; axis < batch.length; axis++) isFirst &&= index[axis] === 0 || outStrides[axis] !== 0;
    const { columns } = right;
    gemm(core, left.rows, columns, left.columns, left, right, columns, alpha, isFirst ? beta : 1, entry);
    for (let axis = batch.length - 1; axis >= 0; axis--) {
      const steps = ++index[axis]! < batch[axis]! ? 1 : 1 - batch[axis]!;
      entry.left += steps * left.batchStrides[axis]! * 4;
      entry.right += steps * right.batchStrides[axis]! * 4;
      entry.out += steps * outStrides[axis]! * 4;
      if (steps === 1) break;
      index[axis] = 0;
    }
  }
}

/**
 * How the matrix on the right is cut where it is copied and there is one: by its rows as it is stored. Those are terms of
 * every sum, cut where the kernel cuts them, so that the bits are the same; or, transposed, columns of the result, as
 * many as the kernel takes at a time, so that a is walked no more often than by a call for all.
 */
export function cutRight({ kernels }: Core, operand: Operand, left: Stack, right: Stack, batch: Shape): Cut {
  if (sizeOf(batch) !== 1) return WHOLE;
  const isTransposed = right.columnStride !== 1;
  const { units, step } = cut(isTransposed ? right.columns : right.rows, [operand]);
  if (step >= units) return WHOLE;
  const block = !isTransposed ? kernels.KC : left.rows > kernels.FEW_ROWS ? kernels.NC : kernels.NR;
  return { units, step: Math.max(block, step - (step % block)) };
}

/** The part [begin, end) of such a product, `at` saying where it begins in the operand on the right, and the others. */
export function multiplyPart(
  core: Core,
  left: Stack,
  right: Stack,
  alpha: number,
  beta: number,
  at: ProductAddresses,
  begin: number,
  end: number,
): void {
  const count = end - begin;
  const { columns } = right;
  if (right.columnStride !== 1) {
    const to = { ...at, out: at.out + begin * 4 };
    gemm(core, left.rows, count, left.columns, left, right, columns, alpha, beta, to);
  } else {
    const from = { ...at, left: at.left + begin * left.columnStride * 4 };
    gemm(core, left.rows, columns, count, left, right, columns, alpha, begin === 0 ? beta : 1, from);
  }
}

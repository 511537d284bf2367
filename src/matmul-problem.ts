// What matmul and its gradients compute with: operands read as stacks of matrices, the shape of the product, the factors.
import { broadcast, readFlag, readNumber, showShape, sizeOf } from "./shapes.ts";
import { type Core, type Operand, readOperand } from "./tensor.ts";
import type { MatmulOptions, Shape, TensorLike } from "./types.ts";

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

/** Rows of one gemm: all of a's matrices are one tall matrix where only a is batched, and contiguous. */
export function stackedRows(a: Matrix, b: Matrix, batch: Shape): number {
  const count = sizeOf(batch);
  const contiguous = a.columnStride === 1 && a.rowStride === a.columns;
  const stacks = contiguous && sizeOf(b.batch) === 1 && count === sizeOf(a.batch);
  return stacks ? a.rows * count : a.rows;
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

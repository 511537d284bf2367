import { float64, type RefTensor, type Rounding } from "./rounding.ts";
import { broadcastOffset, broadcastShapes, indices, sizeOf } from "./shapes.ts";

export interface RefMatmulOptions {
  readonly transposeA?: boolean;
  readonly transposeB?: boolean;
  readonly alpha?: number;
  readonly beta?: number;
  readonly c?: RefTensor;
}

/**
 * out = alpha * op(a) @ op(b) + beta * c, with numpy's rules: leading axes broadcast, a 1-D operand is
 * a row on the left or a column on the right, and its axis is dropped again.
 */
export function matmul(
  a: RefTensor,
  b: RefTensor,
  options: RefMatmulOptions = {},
  round: Rounding = float64,
): RefTensor {
  const { transposeA = false, transposeB = false, c } = options;
  const alpha = round(options.alpha ?? 1);
  const beta = round(options.beta ?? 1);
  const aShape = a.shape.length === 1 ? [1, ...a.shape] : a.shape;
  const bShape = b.shape.length === 1 ? [...b.shape, 1] : b.shape;

  const [m, k] = lastTwo(aShape, transposeA);
  const [kOfB, n] = lastTwo(bShape, transposeB);
  if (k !== kOfB) throw new RangeError(`inner lengths ${k} and ${kOfB} differ`);
  const aBatch = aShape.slice(0, -2);
  const bBatch = bShape.slice(0, -2);
  const batch = broadcastShapes(aBatch, bBatch);
  const shape = [...batch];
  if (a.shape.length > 1) shape.push(m);
  if (b.shape.length > 1) shape.push(n);

  const data = new Float64Array(sizeOf(batch) * m * n);
  let at = 0;
  for (const index of indices(batch)) {
    const aMatrix = broadcastOffset(index, aBatch) * m * k;
    const bMatrix = broadcastOffset(index, bBatch) * k * n;
    for (let i = 0; i < m; i++) {
      for (let j = 0; j < n; j++) {
        let sum = 0;
        for (let p = 0; p < k; p++) {
          const aip = a.data[aMatrix + (transposeA ? p * m + i : i * k + p)] as number;
          const bpj = b.data[bMatrix + (transposeB ? j * k + p : p * n + j)] as number;
          sum = round(sum + round(aip * bpj));
        }
        data[at++] = round(alpha * sum);
      }
    }
  }

  // beta = 0 does not read c: whatever stands there, NaN included, stays out of the result.
  if (c && beta !== 0) {
    at = 0;
    for (const index of indices(shape)) {
      const term = round(beta * (c.data[broadcastOffset(index, c.shape)] as number));
      data[at] = round((data[at] as number) + term);
      at++;
    }
  }
  return { data, shape };
}

function lastTwo(shape: readonly number[], transposed: boolean): [number, number] {
  const [rows, columns] = shape.slice(-2) as [number, number];
  return transposed ? [columns, rows] : [rows, columns];
}

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

export interface RefMatmulGradients {
  readonly dA: RefTensor;
  readonly dB: RefTensor;
  readonly dC?: RefTensor;
}

/** Gradients of matmul from that of its result: every product alpha a_ip b_pj is charged to both its factors. */
export function matmulBackward(
  dOut: RefTensor,
  a: RefTensor,
  b: RefTensor,
  options: RefMatmulOptions = {},
  round: Rounding = float64,
): RefMatmulGradients {
  const { transposeA = false, transposeB = false, c } = options;
  const alpha = round(options.alpha ?? 1);
  const aShape = a.shape.length === 1 ? [1, ...a.shape] : a.shape;
  const bShape = b.shape.length === 1 ? [...b.shape, 1] : b.shape;
  const [m, k] = lastTwo(aShape, transposeA);
  const [, n] = lastTwo(bShape, transposeB);
  const batch = broadcastShapes(aShape.slice(0, -2), bShape.slice(0, -2));
  const dA = new Float64Array(a.data.length);
  const dB = new Float64Array(b.data.length);
  let first = 0;
  for (const index of indices(batch)) {
    const aMatrix = broadcastOffset(index, aShape.slice(0, -2)) * m * k;
    const bMatrix = broadcastOffset(index, bShape.slice(0, -2)) * k * n;
    for (let i = 0; i < m; i++) {
      for (let p = 0; p < k; p++) {
        for (let j = 0; j < n; j++) {
          const ip = aMatrix + (transposeA ? p * m + i : i * k + p);
          const pj = bMatrix + (transposeB ? j * k + p : p * n + j);
          const d = dOut.data[first + i * n + j] as number;
          dA[ip] = round((dA[ip] as number) + round(d * (b.data[pj] as number)));
          dB[pj] = round((dB[pj] as number) + round(d * (a.data[ip] as number)));
        }
      }
    }
    first += m * n;
  }
  const scaled = (x: Float64Array) => x.map((v) => (alpha === 0 ? 0 : round(alpha * v)));
  const gradients = {
    dA: { data: scaled(dA), shape: a.shape },
    dB: { data: scaled(dB), shape: b.shape },
  };
  return c ? { ...gradients, dC: addendGradient(dOut, c, round(options.beta ?? 1), round) } : gradients;
}

/** beta dOut, summed over the axes along which c was broadcast. */
function addendGradient(dOut: RefTensor, c: RefTensor, beta: number, round: Rounding): RefTensor {
  const data = new Float64Array(c.data.length);
  let at = 0;
  for (const index of indices(dOut.shape)) {
    const offset = broadcastOffset(index, c.shape);
    data[offset] = round((data[offset] as number) + (dOut.data[at++] as number));
  }
  return { data: data.map((v) => (beta === 0 ? 0 : round(beta * v))), shape: c.shape };
}

function lastTwo(shape: readonly number[], transposed: boolean): [number, number] {
  const [rows, columns] = shape.slice(-2) as [number, number];
  return transposed ? [columns, rows] : [rows, columns];
}

/**
 * Every reference below is written once and takes the rounding applied after each operation: the
 * identity gives the float64 truth, Math.fround the "plain float32" twin, the same formulas as a
 * careful programmer would write them in float32. What the twin is off by, on the very input of a
 * test, is what the tolerance of that test is made of.
 */
export type Rounding = (x: number) => number;

export const float64: Rounding = (x) => x;
export const float32: Rounding = (x) => Math.fround(x);

/** A tensor of the references: any numbers in row-major order, and the shape. */
export interface RefTensor {
  readonly data: ArrayLike<number>;
  readonly shape: readonly number[];
}

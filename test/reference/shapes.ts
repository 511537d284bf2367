/** Number of elements of a shape. */
export const sizeOf = (shape: readonly number[]): number => shape.reduce((product, n) => product * n, 1);

/** Every index tuple of a shape, last axis fastest, that is in row-major order. */
export function* indices(shape: readonly number[]): Generator<number[]> {
  const index = shape.map(() => 0);
  for (let left = sizeOf(shape); left > 0; left--) {
    yield index.slice();
    for (let axis = shape.length - 1; axis >= 0; axis--) {
      index[axis] = (index[axis] as number) + 1;
      if ((index[axis] as number) < (shape[axis] as number)) break;
      index[axis] = 0;
    }
  }
}

/** Flat position of an index in a tensor that is broadcast right-aligned: axes of length 1 stay at 0. */
export function broadcastOffset(index: readonly number[], shape: readonly number[]): number {
  const lead = index.length - shape.length;
  let offset = 0;
  for (let axis = 0; axis < shape.length; axis++) {
    const n = shape[axis] as number;
    offset = offset * n + (n === 1 ? 0 : (index[lead + axis] as number));
  }
  return offset;
}

/** The common shape of two shapes under right-aligned broadcasting. */
export function broadcastShapes(a: readonly number[], b: readonly number[]): number[] {
  const rank = Math.max(a.length, b.length);
  return Array.from({ length: rank }, (_, axis) => {
    const m = a[axis - rank + a.length] ?? 1;
    const n = b[axis - rank + b.length] ?? 1;
    if (m !== n && m !== 1 && n !== 1) throw new RangeError(`shapes [${a}] and [${b}] do not broadcast`);
    return m === 1 ? n : m;
  });
}

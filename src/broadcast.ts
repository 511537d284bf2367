// NumPy broadcasting of contiguous tensors: shapes, strides, and the copy and the sum that follow from them.
import { sizeOf } from "./shapes.ts";
import type { Shape } from "./types/tensor.ts";

/** NumPy broadcasting of two shapes, or undefined where they do not fit. */
export function broadcast(a: Shape, b: Shape): number[] | undefined {
  const rank = Math.max(a.length, b.length);
  const shape = new Array<number>(rank);
  for (let i = 0; i < rank; i++) {
    const x = a[a.length - rank + i] ?? 1;
    const y = b[b.length - rank + i] ?? 1;
    if (x !== y && x !== 1 && y !== 1) return undefined;
    shape[i] = x === 1 ? y : x;
  }
  return shape;
}

/** Strides of a contiguous tensor read as `target`: 0 on each axis that is broadcast. */
export function broadcastStrides(shape: Shape, target: Shape): number[] {
  const strides = new Array<number>(target.length).fill(0);
  let stride = 1;
  for (let i = 1; i <= shape.length; i++) {
    const length = shape[shape.length - i]!;
    if (length !== 1) strides[target.length - i] = stride;
    stride *= length;
  }
  return strides;
}

/**
 * Calls `row` for each row of `shape`, in order: with the offset of its first element, that of the element of a tensor
 * of shape `from` that is read there by broadcasting, the length of the row, and whether it reads that element alone.
 */
function forEachRow(
  shape: Shape,
  from: Shape,
  row: (offset: number, read: number, columns: number, repeats: boolean) => void,
): void {
  const last = shape.length - 1;
  const columns = last < 0 ? 1 : shape[last]!;
  if (columns === 0) return;
  const strides = broadcastStrides(from, shape);
  const repeats = last < 0 || strides[last] === 0;
  const index = new Array<number>(shape.length).fill(0);
  let read = 0;
  for (let offset = 0, end = sizeOf(shape); offset < end; offset += columns) {
    row(offset, read, columns, repeats);
    for (let axis = last - 1; axis >= 0; axis--) {
      read += strides[axis]!;
      if (++index[axis]! < shape[axis]!) break;
      read -= index[axis]! * strides[axis]!;
      index[axis] = 0;
    }
  }
}

/** Copies a tensor of shape `from` at index `at` of `data`, broadcast to `shape`, to index `to` of `target`. */
export function copyBroadcast(
  data: Float32Array,
  at: number,
  from: Shape,
  shape: Shape,
  target: Float32Array,
  to: number,
): void {
  forEachRow(shape, from, (offset, read, columns, repeats) => {
    const first = to + offset;
    if (repeats) target.fill(data[at + read]!, first, first + columns);
    else if (data === target) target.copyWithin(first, at + read, at + read + columns);
    else target.set(data.subarray(at + read, at + read + columns), first);
  });
}

/** The opposite: sums in float64, of shape `to`, a tensor of shape `shape` over the axes along which that broadcasts. */
export function sumBroadcast(data: Float32Array, at: number, shape: Shape, to: Shape): Float64Array {
  const sums = new Float64Array(sizeOf(to));
  forEachRow(shape, to, (offset, read, columns, repeats) => {
    const first = at + offset;
    if (repeats) {
      let sum = 0;
      for (let i = 0; i < columns; i++) sum += data[first + i]!;
      sums[read]! += sum;
    } else for (let i = 0; i < columns; i++) sums[read + i]! += data[first + i]!;
  });
  return sums;
}

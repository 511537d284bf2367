// mergeAttention: partial results over disjoint keys to the result over all of them, by their log-sum-exp.

import { makeResults, reserve } from "./result.ts";
import { describe, NONE, readLayout, readOptions, sameShape, showShape } from "./shapes.ts";
import { type Core, type Operand, readOperand } from "./tensor.ts";
import type { AttentionPart, AttentionWithLse, MergeAttentionOptions } from "./types/attention.ts";
import type { Shape, Tensor } from "./types/tensor.ts";

const FN = "mergeAttention";
const OPTIONS: ReadonlySet<keyof MergeAttentionOptions> = new Set(["layout"]);

/** One checked part. */
interface Part {
  out: Operand;
  lse: Operand;
}

/** The values of one part. */
interface Values {
  out: Float32Array;
  lse: Float32Array;
}

/** Shape of lse that belongs to an output: the width dropped, heads before length in either layout. */
function lseShapeOf(out: Shape, isBlhd: boolean): number[] {
  const shape = out.slice(0, -1);
  if (isBlhd) shape.push(...shape.splice(-2).reverse());
  return shape;
}

function readPart(core: Core, part: unknown, i: number, first: Shape | undefined, isBlhd: boolean): Part {
  if (typeof part !== "object" || part === null) {
    throw new TypeError(`${FN}: parts[${i}] must be { out, lse }, got ${describe(part)}`);
  }
  const given = part as AttentionPart;
  const out = readOperand(core, FN, `parts[${i}].out`, given.out);
  const lse = readOperand(core, FN, `parts[${i}].lse`, given.lse);
  const least = isBlhd ? 3 : 2;
  if (out.shape.length < least) {
    throw new RangeError(
      `${FN}: parts[${i}].out must have rank ${least} or more, got ${showShape(out.shape)}`,
    );
  }
  if (first !== undefined && !sameShape(out.shape, first)) {
    throw new RangeError(
      `${FN}: parts[${i}].out.shape must be ${showShape(first)} as in parts[0], got ${showShape(out.shape)}`,
    );
  }
  const lseShape = lseShapeOf(out.shape, isBlhd);
  if (!sameShape(lse.shape, lseShape)) {
    throw new RangeError(
      `${FN}: parts[${i}].lse.shape must be ${showShape(lseShape)} for out ${showShape(out.shape)}, got ${showShape(lse.shape)}`,
    );
  }
  return { out, lse };
}

/**
 * Merges one row in float64: weights e^(lse - max), in the order of the parts. A part without keys (lse -Infinity) is
 * passed over, whatever its output; where all are, the row is 0.
 */
function mergeRow(
  parts: readonly Values[],
  row: number,
  first: number,
  width: number,
  out: Float32Array,
  weights: Float64Array,
): number {
  let max = -Infinity;
  for (const { lse } of parts) max = Math.max(max, lse[row]!);
  if (max === -Infinity) return -Infinity;
  let sum = 0;
  for (let i = 0; i < parts.length; i++) sum += weights[i] = Math.exp(parts[i]!.lse[row]! - max);
  for (let c = first; c < first + width; c++) {
    let value = 0;
    for (let i = 0; i < parts.length; i++) if (weights[i] !== 0) value += weights[i]! * parts[i]!.out[c]!;
    out[c] = value / sum;
  }
  return max + Math.log(sum);
}

export function mergeAttention(
  core: Core,
  parts: readonly AttentionPart[],
  given: MergeAttentionOptions = NONE,
): AttentionWithLse {
  const isBlhd = readLayout(FN, readOptions(FN, given, OPTIONS).layout);
  if (!Array.isArray(parts) || parts.length === 0) {
    throw new TypeError(`${FN}: parts must be an array of one or more { out, lse }, got ${describe(parts)}`);
  }
  const checked: Part[] = [];
  for (let i = 0; i < parts.length; i++) {
    checked.push(readPart(core, parts[i], i, checked[0]?.out.shape, isBlhd));
  }
  const read = checked.map(({ out, lse }) => ({ out: valuesOf(core, out), lse: valuesOf(core, lse) }));
  const outShape = [...checked[0]!.out.shape];
  const lseShape = lseShapeOf(outShape, isBlhd);
  const width = outShape[outShape.length - 1]!;
  const rows = read[0]!.lse.length;
  const out = new Float32Array(read[0]!.out.length);
  const lse = new Float32Array(rows);
  const weights = new Float64Array(read.length); // of one row at a time
  const length = lseShape[lseShape.length - 1]!;
  const heads = lseShape[lseShape.length - 2] ?? 1;
  for (let row = 0; row < rows; row++) {
    const bh = Math.floor(row / length);
    const place = isBlhd ? (Math.floor(bh / heads) * length + (row % length)) * heads + (bh % heads) : row;
    lse[row] = mergeRow(read, row, place * width, width, out, weights);
  }
  const merged = [
    { data: out, shape: outShape },
    { data: lse, shape: lseShape },
  ];
  const [first, second] = checked.every(({ out, lse }) => out.resident && lse.resident)
    ? toResident(core, merged)
    : merged;
  return { out: first!, lse: second! };
}

/** The values of an operand, once all are read and no getter is left that might move them. */
function valuesOf({ memory }: Core, operand: Operand): Float32Array {
  memory.checkIntact(operand);
  return memory.valuesOf(operand);
}

/** The same tensors in Wasm memory. */
function toResident(core: Core, tensors: readonly Tensor[]): Tensor[] {
  const shapes = tensors.map(({ shape }) => shape);
  const results = makeResults(core, FN, shapes, true);
  reserve(core, FN, 0, results);
  return results.map((result, i) => {
    const address = result.stage();
    core.memory.floatsAt(address, result.size).set(tensors[i]!.data);
    return result.finish(address);
  });
}

// What operations share whose one result has the shape of their one or two operands, and may be either of them.

import { cut, partBytes, resultBytes, runInParts } from "./parts.ts";
import { Result, reserve } from "./result.ts";
import { NONE, readOptions, sameShape, showShape } from "./shapes.ts";
import { type Core, checkAlias, type Operand, readOperand, readOut } from "./tensor.ts";
import type { ElementwiseOptions } from "./types/dense.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

const OPTIONS: ReadonlySet<keyof ElementwiseOptions> = new Set(["out"]);

/** An operand by its name in messages. */
export type Named = readonly [name: string, operand: Operand];

/** Reads two operands, the second of the shape of the first. */
export function readPair(
  core: Core,
  fn: string,
  [nameX, x]: readonly [name: string, value: TensorLike],
  [nameY, y]: readonly [name: string, value: TensorLike],
): [x: Named, y: Named] {
  const a = readOperand(core, fn, nameX, x);
  const b = readOperand(core, fn, nameY, y);
  if (!sameShape(a.shape, b.shape)) {
    throw new RangeError(
      `${fn}: ${nameY}.shape must be that of ${nameX} ${showShape(a.shape)}, got ${showShape(b.shape)}`,
    );
  }
  return [
    [nameX, a],
    [nameY, b],
  ];
}

/** Runs `kernel(out, x, y, count)` over `units` units of work, into which the elements divide evenly, in parts of `count`. */
export function computeAlike(
  core: Core,
  fn: string,
  operands: readonly [x: Named, y?: Named],
  given: TensorLike | undefined,
  units: number,
  kernel: (out: number, x: number, y: number, count: number) => void,
): Tensor {
  const { memory } = core;
  const x = operands[0][1];
  const y = operands[1]?.[1];
  const out = readOut(core, fn, given, x.shape);
  if (out !== undefined) {
    for (const [name, operand] of operands as readonly Named[]) checkAlias(fn, out, name, operand, true);
  }
  const result = new Result(core, fn, x.shape, out, given, x.resident && y?.resident !== false);
  // A copy of x is overwritten by the result: half as much memory to go through the caches.
  const isInPlace = result.isCopied && x.address < 0;
  const inputs = y === undefined ? [x] : [x, y];
  const parts = cut(units, inputs, result);
  let bytes = isInPlace ? 0 : resultBytes(result, parts);
  bytes += partBytes(memory, x, parts);
  if (y !== undefined) bytes += partBytes(memory, y, parts);
  reserve(core, fn, bytes, [result]);
  if (parts.step >= units) {
    // Not by runInParts, which would take a third longer for a small call.
    const from = memory.stageOperand(x);
    const other = y === undefined ? 0 : memory.stageOperand(y);
    const to = isInPlace ? from : result.stage();
    kernel(to, from, other, units);
    return result.finish(to);
  }
  const unit = x.size / units;
  runInParts(memory, parts, inputs, isInPlace ? [] : [result], (at, begin, end) => {
    const to = isInPlace ? at[0]! : at[inputs.length]!;
    kernel(to, at[0]!, y === undefined ? 0 : at[1]!, end - begin);
    if (isInPlace) result.take(to, begin * unit, (end - begin) * unit);
  });
  return result.close();
}

/** Runs `kernel(from, to, begin, end)` over the elements of x. */
export function mapElements(
  core: Core,
  fn: string,
  value: TensorLike,
  given: ElementwiseOptions = NONE,
  kernel: (from: number, to: number, begin: number, end: number) => void,
): Tensor {
  const { out } = readOptions(fn, given, OPTIONS);
  const x = readOperand(core, fn, "x", value);
  return computeAlike(core, fn, [["x", x]], out, x.size, (to, from, _, count) => kernel(from, to, 0, count));
}

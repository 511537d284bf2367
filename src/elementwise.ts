// What operations share whose one result has the shape of their one or two operands, and may be either of them.

import { type Cut, cut, partBytes, resultBytes, runInParts } from "./parts.ts";
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

/** What computes units [begin, end) of work from addresses: of the result, of the first operand, of the second or 0. */
export type Kernel = (out: number, x: number, y: number, begin: number, end: number) => void;

/** Runs a kernel over `units` units of work, into which the elements divide evenly. */
export function computeAlike(
  core: Core,
  fn: string,
  operands: readonly [x: Named, y?: Named],
  given: TensorLike | undefined,
  units: number,
  kernel: Kernel,
): Tensor {
  const { memory } = core;
  const x = operands[0][1];
  const y = operands[1]?.[1];
  const out = readOut(core, fn, given, x.shape);
  if (out !== undefined) {
    for (const [name, operand] of operands as readonly Named[]) checkAlias(fn, out, name, operand, true);
  }
  const result = new Result(core, fn, x.shape, out, given, x.resident && y?.resident !== false);
  const parts = cut(units, y === undefined ? [x] : [x, y], result);
  // A copy of x is overwritten by the result: half as much memory to go through the caches.
  const isInPlace = result.isCopied && x.address < 0;
  let bytes = partBytes(memory, x, parts);
  if (y !== undefined) bytes += partBytes(memory, y, parts);
  if (!isInPlace) bytes += resultBytes(result, parts);
  reserve(core, fn, bytes, [result]);
  if (parts.step < units) {
    runAlike(core, parts, x, y, result, isInPlace, kernel);
    return result.close();
  }
  const from = memory.stageOperand(x);
  const other = y === undefined ? 0 : memory.stageOperand(y);
  const to = isInPlace ? from : result.stage();
  kernel(to, from, other, 0, units);
  return result.finish(to);
}

function runAlike(
  { memory }: Core,
  parts: Cut,
  x: Operand,
  y: Operand | undefined,
  result: Result,
  isInPlace: boolean,
  kernel: Kernel,
): void {
  const operands = y === undefined ? [x] : [x, y];
  const unit = x.size / parts.units;
  runInParts(memory, parts, operands, isInPlace ? [] : [result], (addresses, begin, end) => {
    const from = addresses[0]!;
    const to = isInPlace ? from : addresses[operands.length]!;
    kernel(to, from, y === undefined ? 0 : addresses[1]!, begin, end);
    if (isInPlace) result.take(from + begin * unit * 4, begin * unit, (end - begin) * unit);
  });
}

/** Runs `kernel(x, y, begin, end)` over the elements of x. */
export function mapElements(
  core: Core,
  fn: string,
  value: TensorLike,
  given: ElementwiseOptions = NONE,
  kernel: (x: number, y: number, begin: number, end: number) => void,
): Tensor {
  const { out } = readOptions(fn, given, OPTIONS);
  const x = readOperand(core, fn, "x", value);
  return computeAlike(core, fn, [["x", x]], out, x.size, (to, from, _, begin, end) =>
    kernel(from, to, begin, end),
  );
}

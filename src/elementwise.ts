// What operations share whose one result has the shape of their one or two operands, and may be either of them.

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

/** Runs `kernel(out, x, y)` over addresses: of the result, of the first operand, and of the second or 0. */
export function computeAlike(
  core: Core,
  fn: string,
  operands: readonly [x: Named, y?: Named],
  given: TensorLike | undefined,
  kernel: (out: number, x: number, y: number) => void,
): Tensor {
  const { memory } = core;
  const x = operands[0][1];
  const y = operands[1]?.[1];
  const out = readOut(core, fn, given, x.shape);
  if (out !== undefined) {
    for (const [name, operand] of operands as readonly Named[]) checkAlias(fn, out, name, operand, true);
  }
  const result = new Result(core, fn, x.shape, out, given, x.resident && y?.resident !== false);
  const bytes = memory.stagedBytes(x) + (y === undefined ? 0 : memory.stagedBytes(y));
  reserve(core, fn, bytes + result.stagedBytes, [result]);
  const from = memory.stageOperand(x);
  const other = y === undefined ? 0 : memory.stageOperand(y);
  const to = result.stage();
  kernel(to, from, other);
  return result.finish(to);
}

/** Runs `kernel(x, y, count)` over the elements of x. */
export function mapElements(
  core: Core,
  fn: string,
  value: TensorLike,
  given: ElementwiseOptions = NONE,
  kernel: (x: number, y: number, count: number) => void,
): Tensor {
  const { out } = readOptions(fn, given, OPTIONS);
  const x = readOperand(core, fn, "x", value);
  return computeAlike(core, fn, [["x", x]], out, (to, from) => kernel(from, to, x.size));
}

// What the elementwise operations share: one operand, one result of its shape, which may be the operand itself.
import { readOptions } from "./shapes.ts";
import { type Core, checkAlias, Result, readOperand, readOut, reserve } from "./tensor.ts";
import type { ElementwiseOptions, Tensor, TensorLike } from "./types.ts";

const OPTIONS: ReadonlySet<string> = new Set(["out"]);

/** Runs `kernel(x, y, count)` over the elements of x. */
export function mapElements(
  core: Core,
  fn: string,
  x: TensorLike,
  given: ElementwiseOptions | undefined,
  kernel: (x: number, y: number, count: number) => void,
): Tensor {
  const options = given === undefined ? given : readOptions(fn, given, OPTIONS);
  const input = readOperand(core, fn, "x", x);
  const out = readOut(core, fn, options?.out, input.shape);
  checkAlias(fn, out, "x", input, true);
  const result = new Result(core, fn, [...input.shape], out, options?.out, input.resident);
  reserve(core, fn, core.memory.stagedBytes(input) + result.stagedBytes, result);
  const from = core.memory.stageOperand(input);
  const to = result.stage();
  kernel(from, to, input.size);
  return result.finish(to);
}

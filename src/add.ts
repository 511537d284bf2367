import { readOptions, sameShape, showShape } from "./shapes.ts";
import { type Core, checkAlias, Result, readOperand, readOut, reserve } from "./tensor.ts";
import type { ElementwiseOptions, Tensor, TensorLike } from "./types.ts";

const FN = "add";
const OPTIONS: ReadonlySet<string> = new Set(["out"]);

/** x + y. */
export function add(core: Core, x: TensorLike, y: TensorLike, given?: ElementwiseOptions): Tensor {
  const options = given === undefined ? given : readOptions(FN, given, OPTIONS);
  const a = readOperand(core, FN, "x", x);
  const b = readOperand(core, FN, "y", y);
  if (!sameShape(a.shape, b.shape)) {
    throw new RangeError(`${FN}: y.shape must be that of x ${showShape(a.shape)}, got ${showShape(b.shape)}`);
  }
  const out = readOut(core, FN, options?.out, a.shape);
  checkAlias(FN, out, "x", a, true);
  checkAlias(FN, out, "y", b, true);
  const { memory, kernels } = core;
  const result = new Result(core, FN, [...a.shape], out, options?.out, a.resident && b.resident);
  reserve(core, FN, memory.stagedBytes(a) + memory.stagedBytes(b) + result.stagedBytes, result);
  const from = memory.stageOperand(a);
  const other = memory.stageOperand(b);
  const to = result.stage();
  kernels.add(from, other, to, 0, a.size);
  return result.finish(to);
}

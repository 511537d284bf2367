import { computeAlike, readPair } from "./elementwise.ts";
import { NONE, readOptions } from "./shapes.ts";
import type { Core } from "./tensor.ts";
import type { ElementwiseOptions } from "./types/dense.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

const FN = "add";
const OPTIONS: ReadonlySet<keyof ElementwiseOptions> = new Set(["out"]);

/** x + y. */
export function add(core: Core, x: TensorLike, y: TensorLike, given: ElementwiseOptions = NONE): Tensor {
  const { out } = readOptions(FN, given, OPTIONS);
  const operands = readPair(core, FN, ["x", x], ["y", y]);
  const { size } = operands[0][1];
  return computeAlike(core, FN, operands, out, size, (to, a, b, count) =>
    core.kernels.add(a, b, to, 0, count),
  );
}

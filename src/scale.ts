import { mapElements } from "./elementwise.ts";
import { describe } from "./shapes.ts";
import type { Core } from "./tensor.ts";
import type { ElementwiseOptions } from "./types/dense.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

/** alpha * x. Scaling scores by 1/sqrt(d_k) brings them back to unit variance (Vaswani et al. 2017, 3.2.1). */
export function scale(core: Core, x: TensorLike, alpha: number, options?: ElementwiseOptions): Tensor {
  if (typeof alpha !== "number") throw new TypeError(`scale: alpha must be a number, got ${describe(alpha)}`);
  return mapElements(core, "scale", x, options, (from, to, begin, end) =>
    core.kernels.scale(alpha, from, to, begin, end),
  );
}

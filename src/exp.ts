import { mapElements } from "./elementwise.ts";
import type { Core } from "./tensor.ts";
import type { ElementwiseOptions } from "./types/dense.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

/** exp(x), within 1.5 ulp on [-87, 0]; results below the smallest normal float32 are 0. */
export function exp(core: Core, x: TensorLike, options?: ElementwiseOptions): Tensor {
  return mapElements(core, "exp", x, options, core.kernels.exp);
}

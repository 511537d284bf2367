import { mapElements } from "./elementwise.ts";
import { describe, NONE, readOptions } from "./shapes.ts";
import type { Core } from "./tensor.ts";
import type { ElementwiseOptions } from "./types/dense.ts";
import type { GeluOptions } from "./types/layers.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

const GELU_OPTIONS: ReadonlySet<keyof GeluOptions> = new Set(["approximate", "out"]);

/** max(x, 0). */
export function relu(core: Core, x: TensorLike, options?: ElementwiseOptions): Tensor {
  return mapElements(core, "relu", x, options, core.kernels.relu);
}

/** x times the distribution function of the standard normal distribution at x, or its approximation by tanh. */
export function gelu(core: Core, x: TensorLike, given: GeluOptions = NONE): Tensor {
  const { approximate = "none", ...others } = readOptions("gelu", given, GELU_OPTIONS);
  if (approximate !== "none" && approximate !== "tanh") {
    throw new TypeError(`gelu: approximate must be "none" or "tanh", got ${describe(approximate)}`);
  }
  const kernel = approximate === "tanh" ? core.kernels.geluTanh : core.kernels.gelu;
  return mapElements(core, "gelu", x, others, kernel);
}

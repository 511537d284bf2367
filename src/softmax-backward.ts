// Gradients of softmax and logSoftmax. The operands are read as [outer, n, inner] with the axis in the middle.
import { computeAlike, readPair } from "./elementwise.ts";
import { NONE, normalizeAxis, readOptions } from "./shapes.ts";
import { extents } from "./softmax.ts";
import type { Core } from "./tensor.ts";
import type { SoftmaxOptions } from "./types/softmax.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

const OPTIONS: ReadonlySet<keyof SoftmaxOptions> = new Set(["axis", "out"]);

function backward(
  core: Core,
  fn: "softmaxBackward" | "logSoftmaxBackward",
  upstream: TensorLike,
  forward: TensorLike,
  given: SoftmaxOptions = NONE,
): Tensor {
  const { axis = -1, out } = readOptions(fn, given, OPTIONS);
  const operands = readPair(core, fn, ["y", forward], ["dOut", upstream]);
  const { shape } = operands[0][1];
  const along = normalizeAxis(fn, axis, shape.length, "y");
  const { kernels } = core;
  const mode = fn === "softmaxBackward" ? kernels.SOFTMAX : kernels.LOG_SOFTMAX;
  const { outer, n, inner } = extents(shape, along, along);
  const groups = Math.ceil(inner / 4);
  return computeAlike(core, fn, operands, out, outer, (to, y, dOut, count) => {
    if (n * inner === 0) return;
    if (inner === 1) kernels.softmaxBackwardRows(mode, n, dOut, y, to, 0, count);
    else kernels.softmaxBackwardColumns(mode, n, inner, dOut, y, to, 0, count * groups);
  });
}

export function softmaxBackward(
  core: Core,
  dOut: TensorLike,
  y: TensorLike,
  options?: SoftmaxOptions,
): Tensor {
  return backward(core, "softmaxBackward", dOut, y, options);
}

export function logSoftmaxBackward(
  core: Core,
  dOut: TensorLike,
  y: TensorLike,
  options?: SoftmaxOptions,
): Tensor {
  return backward(core, "logSoftmaxBackward", dOut, y, options);
}

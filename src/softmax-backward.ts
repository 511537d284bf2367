// Gradients of softmax and logSoftmax. The operands are read as [outer, n, inner] with the axis in the middle.
import { normalizeAxis, readOptions, sameShape, showShape } from "./shapes.ts";
import { extents } from "./softmax.ts";
import { type Core, checkAlias, Result, readOperand, readOut, reserve } from "./tensor.ts";
import type { SoftmaxOptions, Tensor, TensorLike } from "./types.ts";

const OPTIONS: ReadonlySet<string> = new Set(["axis", "out"]);

function backward(
  core: Core,
  fn: "softmaxBackward" | "logSoftmaxBackward",
  upstream: TensorLike,
  forward: TensorLike,
  given: SoftmaxOptions = {},
): Tensor {
  const options = readOptions(fn, given, OPTIONS);
  const dOut = readOperand(core, fn, "dOut", upstream);
  const y = readOperand(core, fn, "y", forward);
  if (!sameShape(dOut.shape, y.shape)) {
    throw new RangeError(
      `${fn}: dOut.shape must be that of y ${showShape(y.shape)}, got ${showShape(dOut.shape)}`,
    );
  }
  const axis = normalizeAxis(fn, options.axis === undefined ? -1 : options.axis, y.shape.length, "y");
  const out = readOut(core, fn, options.out, y.shape);
  checkAlias(fn, out, "dOut", dOut, true);
  checkAlias(fn, out, "y", y, true);
  const { kernels, memory } = core;
  const result = new Result(core, fn, [...y.shape], out, options.out, dOut.resident && y.resident);
  reserve(core, fn, memory.stagedBytes(dOut) + memory.stagedBytes(y) + result.stagedBytes, result);
  const from = memory.stageOperand(dOut);
  const yAt = memory.stageOperand(y);
  const to = result.stage();
  const mode = fn === "softmaxBackward" ? kernels.SOFTMAX : kernels.LOG_SOFTMAX;
  const { outer, n, inner } = extents(y.shape, axis, axis);
  if (y.size > 0) {
    if (inner === 1) kernels.softmaxBackwardRows(mode, n, from, yAt, to, 0, outer);
    else {
      const groups = outer * Math.ceil(inner / 4);
      kernels.softmaxBackwardColumns(mode, n, inner, from, yAt, to, 0, groups);
    }
  }
  return result.finish(to);
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

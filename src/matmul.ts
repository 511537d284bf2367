// matmul: out = alpha * op(a) @ op(b) + beta * c, batched with broadcasting (numpy.matmul, ONNX MatMul and Gemm).
import { copyBroadcast } from "./broadcast.ts";
import {
  cutRight,
  multiply,
  multiplyPart,
  productScratchBytes,
  readMatmul,
  stacksOf,
} from "./matmul-problem.ts";
import { blockBytes } from "./memory.ts";
import { partBytes, runInParts } from "./parts.ts";
import { Result, reserve } from "./result.ts";
import { NONE, readOptions } from "./shapes.ts";
import { type Core, checkAlias, readOut } from "./tensor.ts";
import type { MatmulOptions } from "./types/dense.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

const FN = "matmul";
const OPTIONS: ReadonlySet<keyof MatmulOptions> = new Set([
  "transposeA",
  "transposeB",
  "alpha",
  "beta",
  "c",
  "out",
]);

export function matmul(core: Core, a: TensorLike, b: TensorLike, given: MatmulOptions = NONE): Tensor {
  const options = readOptions(FN, given, OPTIONS);
  const problem = readMatmul(core, FN, a, b, options);
  const { left, right, shape, alpha, beta, addend } = problem;
  const out = readOut(core, FN, options.out, shape);
  checkAlias(FN, out, "a", left);
  checkAlias(FN, out, "b", right);
  if (addend !== undefined) checkAlias(FN, out, "c", addend, out !== undefined && addend.size === out.size);

  const { memory } = core;
  const resident = left.resident && right.resident && (addend === undefined || addend.resident);
  const result = new Result(core, FN, shape, out, options.out, resident);
  const { batch, a: x, b: y, out: z } = stacksOf(problem);
  const scratchBytes = productScratchBytes(core, x, y);
  const parts = cutRight(core, right, x, y, batch); // the weights, as a rule, and most of the bytes
  const bytes =
    memory.stagedBytes(left) +
    partBytes(memory, right, parts) +
    (addend === undefined ? 0 : memory.stagedBytes(addend));
  reserve(core, FN, bytes + result.stagedBytes() + blockBytes(scratchBytes), [result]);
  const isCut = parts.step < parts.units;
  const at = {
    left: memory.stageOperand(left),
    right: isCut ? 0 : memory.stageOperand(right),
    out: result.stage(),
    scratch: memory.stage(scratchBytes),
  };
  if (addend !== undefined && beta !== 0) {
    const from = memory.stageOperand(addend);
    copyBroadcast(memory.f32, from >>> 2, addend.shape, shape, memory.f32, at.out >>> 2);
  }
  if (isCut && result.size > 0) {
    runInParts(memory, parts, [right], [], (addresses, begin, end) =>
      multiplyPart(core, x, y, alpha, beta, { ...at, right: addresses[0]! }, begin, end),
    );
  } else if (result.size > 0) multiply(core, x, y, z.batchStrides, batch, alpha, beta, at);
  return result.finish(at.out);
}

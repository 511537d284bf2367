// scaledDotProductAttentionBackward: checks the problem and the results of the forward, stages all, calls the kernel.
import {
  type Inputs,
  lseShape,
  outShape,
  type Problem,
  readInputs,
  SCORE_OPTIONS,
} from "./attention-problem.ts";
import { inputBytes, stageInputs } from "./attention-staging.ts";
import { blockBytes } from "./memory.ts";
import { writeGradients } from "./params.ts";
import { makeResults, type Result, reserve } from "./result.ts";
import { describe, readFlag, readOptions, sameShape, showShape } from "./shapes.ts";
import { type Core, type Operand, readOperand } from "./tensor.ts";
import type { AttentionBackwardInputs, AttentionGradients } from "./types/attention.ts";
import type { Shape, Tensor, TensorLike } from "./types/tensor.ts";

const FN = "scaledDotProductAttentionBackward";
const OPTIONS: ReadonlySet<keyof AttentionBackwardInputs> = new Set([
  "dOut",
  "dLse",
  "query",
  "key",
  "value",
  "out",
  "lse",
  ...SCORE_OPTIONS,
  "returnLse",
  "returnDAttnMask",
  "returnDSinks",
]);

/** Reads an operand that must have the shape of a result of the forward. */
function readLike(core: Core, name: string, value: TensorLike, shape: Shape): Operand {
  const operand = readOperand(core, FN, name, value);
  if (!sameShape(operand.shape, shape)) {
    throw new RangeError(
      `${FN}: ${name}.shape must be ${showShape(shape)} as the forward has it, got ${showShape(operand.shape)}`,
    );
  }
  return operand;
}

/** What the forward gave, and the gradients of it. */
interface Results {
  out: Operand;
  lse: Operand;
  dOut: Operand;
  dLse: Operand | undefined;
}

function readResults(core: Core, given: AttentionBackwardInputs, inputs: Inputs): Results {
  if (given.lse === undefined || (given.returnLse !== undefined && given.returnLse !== true)) {
    throw new TypeError(
      `${FN}: lse must be that of the forward, which gives it with returnLse: true, got lse ${describe(given.lse)}` +
        `, returnLse ${describe(given.returnLse)}`,
    );
  }
  return {
    out: readLike(core, "out", given.out, outShape(inputs)),
    lse: readLike(core, "lse", given.lse, lseShape(inputs)),
    dOut: readLike(core, "dOut", given.dOut, outShape(inputs)),
    dLse: given.dLse === undefined ? undefined : readLike(core, "dLse", given.dLse, lseShape(inputs)),
  };
}

/** Shapes of the gradients that are wanted. */
function gradientShapes(
  given: AttentionBackwardInputs,
  { q, k, v, mask, sinks }: Inputs,
): Record<string, number[]> {
  const shapes: Record<string, number[]> = { dQuery: q.shape, dKey: k.shape, dValue: v.shape };
  if (readFlag(FN, "returnDAttnMask", given.returnDAttnMask)) {
    if (mask?.additive === undefined) {
      const got = mask === undefined ? "none" : "a boolean one";
      throw new TypeError(`${FN}: returnDAttnMask needs an additive attnMask (Float32Array), got ${got}`);
    }
    shapes.dAttnMask = mask.additive.shape;
  }
  if (readFlag(FN, "returnDSinks", given.returnDSinks)) {
    if (sinks === undefined) throw new TypeError(`${FN}: returnDSinks needs sinks, got ${describe(sinks)}`);
    shapes.dSinks = sinks.shape;
  }
  return shapes;
}

/** True where every gradient is 0: there are no rows, or no keys, and then the rows have at most a sink. */
function isEmpty({ batch, numHeads, lq, lk }: Problem, hasSinks: boolean): boolean {
  return batch === 0 || numHeads === 0 || lq === 0 || (lk === 0 && !hasSinks);
}

/** Bytes of arena that the kernel takes beside the gradients. */
function kernelBytes(core: Core, inputs: Inputs, { out, lse, dOut, dLse }: Results): number {
  const { kernels, memory } = core;
  let bytes = inputBytes(core, inputs) + blockBytes(kernels.gradientsSize);
  for (const operand of [out, lse, dOut]) bytes += memory.stagedBytes(operand);
  if (dLse !== undefined) bytes += memory.stagedBytes(dLse);
  return bytes + blockBytes(kernels.attentionBackwardScratchBytes(inputs.p.d, inputs.p.dv));
}

/** Clears the gradients, by their names, and runs the kernel where they are not all 0; returns them. */
function run(
  core: Core,
  inputs: Inputs,
  given: Results,
  names: readonly string[],
  results: readonly Result[],
): Record<string, Tensor> {
  const skipped = isEmpty(inputs.p, names.includes("dSinks"));
  let bytes = skipped ? 0 : kernelBytes(core, inputs, given);
  for (const result of results) bytes += result.stagedBytes();
  reserve(core, FN, bytes, results);
  const at: Record<string, number> = {};
  results.forEach((result, i) => {
    const address = result.stage();
    core.memory.floatsAt(address, result.size).fill(0);
    at[names[i]!] = address;
  });
  if (!skipped) differentiate(core, inputs, given, at);
  return Object.fromEntries(results.map((result, i) => [names[i]!, result.finish(at[names[i]!]!)]));
}

/** Copies in what does not live in Wasm memory, and runs the kernel, which adds to the gradients. */
function differentiate(
  core: Core,
  inputs: Inputs,
  { out, lse, dOut, dLse }: Results,
  at: Record<string, number>,
): void {
  const { kernels, memory } = core;
  const { p } = inputs;
  const scratch = memory.stage(kernels.attentionBackwardScratchBytes(p.d, p.dv));
  const params = stageInputs(core, inputs, memory.stageOperand(out), memory.stageOperand(lse), scratch);
  const gradients = memory.stage(kernels.gradientsSize);
  writeGradients(core, gradients, {
    dOut: memory.stageOperand(dOut),
    dLse: dLse === undefined ? 0 : memory.stageOperand(dLse),
    dQuery: at.dQuery!,
    dKey: at.dKey!,
    dValue: at.dValue!,
    dMask: at.dAttnMask ?? 0,
    dSinks: at.dSinks ?? 0,
  });
  const items = kernels.attentionBackwardWorkItems(p.batch, p.numHeads, p.numKvHeads);
  kernels.attentionBackward(params, gradients, 0, items);
}

export function scaledDotProductAttentionBackward(
  core: Core,
  given: AttentionBackwardInputs,
): AttentionGradients {
  const options = readOptions(FN, given, OPTIONS);
  const inputs = readInputs(core, FN, options.query, options.key, options.value, options);
  const results = readResults(core, options, inputs);
  const { q, k, v } = inputs;
  const operands = [q, k, v, results.out, results.lse, results.dOut, results.dLse];
  const resident = operands.every((operand) => operand === undefined || operand.resident);
  const shapes = gradientShapes(options, inputs);
  const gradients = makeResults(core, FN, Object.values(shapes), resident);
  return run(core, inputs, results, Object.keys(shapes), gradients) as unknown as AttentionGradients;
}

// layerNorm and rmsNorm. x is read as [rows, n]: the axes from `axis` on are normalised together.

import { cut, partBytes, resultBytes, runInParts } from "./parts.ts";
import { makeResults, reserve } from "./result.ts";
import {
  NONE,
  normalizeAxis,
  readFlag,
  readOptions,
  refuseNumber,
  sameShape,
  showShape,
  sizeOf,
} from "./shapes.ts";
import { type Core, checkAlias, type Operand, readOperand, readOut } from "./tensor.ts";
import type { LayerNormOptions, LayerNormWithStats, RmsNormOptions } from "./types/layers.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

const RMS_OPTIONS = new Set<keyof RmsNormOptions>(["weight", "axis", "eps", "out"]);
const LAYER_OPTIONS = new Set<keyof LayerNormOptions>([...RMS_OPTIONS, "bias", "returnStats"]);

/** torch's default of rms_norm, the epsilon of float32. */
const FLOAT32_EPSILON = 2 ** -23;

/** One checked call of either. */
interface Problem {
  fn: "layerNorm" | "rmsNorm";
  x: Operand;
  weight: Operand | undefined;
  bias: Operand | undefined;
  /** First of the axes that are normalised. */
  axis: number;
  eps: number;
  out: Operand | undefined;
  returnStats: boolean;
}

function readEps(fn: string, eps: unknown, fallback: number): number {
  if (eps === undefined) return fallback;
  if (typeof eps !== "number" || !(eps >= 0 && eps < Infinity)) {
    refuseNumber(fn, "eps", "a finite number of 0 or more", eps);
  }
  return eps;
}

/** A weight or bias: one number for each element that is normalised. */
function readFactor(
  core: Core,
  fn: string,
  name: string,
  value: TensorLike | undefined,
  x: Operand,
  axis: number,
) {
  if (value === undefined) return undefined;
  const operand = readOperand(core, fn, name, value);
  const shape = x.shape.slice(axis);
  if (!sameShape(operand.shape, shape)) {
    throw new RangeError(
      `${fn}: ${name}.shape must be ${showShape(shape)}, the axes of x ${showShape(x.shape)} from ${axis} on, ` +
        `got ${showShape(operand.shape)}`,
    );
  }
  return operand;
}

function readProblem(
  core: Core,
  fn: Problem["fn"],
  value: TensorLike,
  options: LayerNormOptions,
  eps: number,
): Problem {
  const x = readOperand(core, fn, "x", value);
  const axis = normalizeAxis(fn, options.axis === undefined ? -1 : options.axis, x.shape.length);
  const problem = {
    fn,
    x,
    weight: readFactor(core, fn, "weight", options.weight, x, axis),
    bias: readFactor(core, fn, "bias", options.bias, x, axis),
    axis,
    eps: readEps(fn, options.eps, eps),
    out: readOut(core, fn, options.out, x.shape),
    returnStats: readFlag(fn, "returnStats", options.returnStats),
  };
  checkAlias(fn, problem.out, "x", x, true);
  if (problem.weight !== undefined) checkAlias(fn, problem.out, "weight", problem.weight);
  if (problem.bias !== undefined) checkAlias(fn, problem.out, "bias", problem.bias);
  return problem;
}

/** Shapes of the results: y, and where they are asked for the mean and the reciprocal standard deviation of each row. */
function resultShapes({ x: { shape }, axis, returnStats }: Problem): number[][] {
  if (!returnStats) return [shape];
  const stats = shape.map((length, j) => (j < axis ? length : 1));
  return [shape, stats, [...stats]];
}

/** Copies in what does not live in Wasm memory, the rows in parts, and runs the kernel. */
function run(core: Core, problem: Problem, given: TensorLike | undefined): Tensor[] {
  const { memory, kernels } = core;
  const { fn, x, axis, eps, returnStats } = problem;
  const factors = [problem.weight, problem.bias];
  const resident = x.resident && factors.every((factor) => factor === undefined || factor.resident);
  const results = makeResults(core, fn, resultShapes(problem), resident, problem.out, given);
  const rows = sizeOf(x.shape.slice(0, axis));
  const parts = cut(rows, [x], results[0]);
  let bytes = partBytes(memory, x, parts);
  for (const factor of factors) if (factor !== undefined) bytes += memory.stagedBytes(factor);
  for (const result of results) bytes += resultBytes(result, parts);
  reserve(core, fn, bytes, results);
  const weight = problem.weight === undefined ? 0 : memory.stageOperand(problem.weight);
  const bias = problem.bias === undefined ? 0 : memory.stageOperand(problem.bias);
  const n = sizeOf(x.shape.slice(axis));
  const mode = fn === "layerNorm" ? kernels.LAYER_NORM : kernels.RMS_NORM;
  runInParts(memory, parts, [x], results, (at, begin, end) => {
    // Empty rows have statistics, and without those there may be more rows than the kernel can count.
    if (n === 0 && !returnStats) return;
    kernels.norm(mode, n, eps, at[0]!, weight, bias, at[1]!, at[2] ?? 0, at[3] ?? 0, 0, end - begin);
  });
  return results.map((result) => result.close());
}

export function layerNorm(
  core: Core,
  x: TensorLike,
  given: LayerNormOptions = NONE,
): Tensor | LayerNormWithStats {
  const options = readOptions("layerNorm", given, LAYER_OPTIONS);
  const problem = readProblem(core, "layerNorm", x, options, 1e-5);
  const [out, mean, rstd] = run(core, problem, options.out);
  return problem.returnStats ? { out: out!, mean: mean!, rstd: rstd! } : out!;
}

export function rmsNorm(core: Core, x: TensorLike, given: RmsNormOptions = NONE): Tensor {
  const options = readOptions("rmsNorm", given, RMS_OPTIONS);
  const [out] = run(core, readProblem(core, "rmsNorm", x, options, FLOAT32_EPSILON), options.out);
  return out!;
}

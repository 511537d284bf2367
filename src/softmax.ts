// softmax, logSoftmax and logSumExp along any axis. x is read as [outer, n, inner] with the axis in the middle.
import { computeAlike } from "./elementwise.ts";
import { blockBytes } from "./memory.ts";
import { cut, partBytes, resultBytes, runInParts } from "./parts.ts";
import { Result, reserve } from "./result.ts";
import { NONE, normalizeAxis, readFlag, readOptions, sizeOf } from "./shapes.ts";
import { type Core, checkAlias, type Operand, readOperand, readOut } from "./tensor.ts";
import type { LogSumExpOptions, SoftmaxOptions } from "./types/softmax.ts";
import type { Shape, Tensor, TensorLike } from "./types/tensor.ts";

const SOFTMAX_OPTIONS: ReadonlySet<keyof SoftmaxOptions> = new Set(["axis", "out"]);
const LOG_SUM_EXP_OPTIONS: ReadonlySet<keyof LogSumExpOptions> = new Set(["axis", "keepDims", "out"]);

interface Extents {
  outer: number;
  n: number;
  inner: number;
}

/** The axes [first, last] of a shape as one, those before and after it as one each. */
export function extents(shape: Shape, first: number, last: number): Extents {
  const e = { outer: 1, n: 1, inner: 1 };
  for (let i = 0; i < shape.length; i++) {
    const part = i < first ? "outer" : i > last ? "inner" : "n";
    e[part] *= shape[i]!;
  }
  return e;
}

/** Runs the kernel of one mode over `count` of `outer`: by rows, or by columns in groups of four lanes. */
function runKernel(
  { kernels }: Core,
  mode: number,
  { n, inner }: Extents,
  from: number,
  to: number,
  count: number,
): void {
  if (count * inner === 0 || (n === 0 && mode !== kernels.LOG_SUM_EXP)) return; // nothing to write
  if (inner === 1) kernels.softmaxRows(mode, n, from, to, 0, count);
  else kernels.softmaxColumns(mode, n, inner, from, to, 0, count * Math.ceil(inner / 4));
}

function normalize(
  core: Core,
  fn: "softmax" | "logSoftmax",
  value: TensorLike,
  given: SoftmaxOptions = NONE,
): Tensor {
  const { axis = -1, out } = readOptions(fn, given, SOFTMAX_OPTIONS);
  const x = readOperand(core, fn, "x", value);
  const along = normalizeAxis(fn, axis, x.shape.length);
  const mode = fn === "softmax" ? core.kernels.SOFTMAX : core.kernels.LOG_SOFTMAX;
  const e = extents(x.shape, along, along);
  return computeAlike(core, fn, [["x", x]], out, e.outer, (to, from, _, count) =>
    runKernel(core, mode, e, from, to, count),
  );
}

export function softmax(core: Core, x: TensorLike, options?: SoftmaxOptions): Tensor {
  return normalize(core, "softmax", x, options);
}

export function logSoftmax(core: Core, x: TensorLike, options?: SoftmaxOptions): Tensor {
  return normalize(core, "logSoftmax", x, options);
}

/** The axes to reduce, ascending and without repeats. */
function readAxes(axis: number | readonly number[], rank: number): number[] {
  const list: readonly unknown[] = Array.isArray(axis) ? axis : [axis];
  const axes = list.map((a) => normalizeAxis("logSumExp", a, rank)).sort((a, b) => a - b);
  for (let i = 1; i < axes.length; i++) {
    if (axes[i] === axes[i - 1])
      throw new RangeError(`logSumExp: axis must name each axis once, got axis ${axes[i]} twice`);
  }
  return axes;
}

/** Splits ascending axes into runs of neighbours, last run first. */
function runsOf(axes: readonly number[]): [first: number, last: number][] {
  const runs: [number, number][] = [];
  for (const axis of [...axes].reverse()) {
    const run = runs[runs.length - 1];
    if (run !== undefined && run[0] === axis + 1) run[0] = axis;
    else runs.push([axis, axis]);
  }
  return runs;
}

export function logSumExp(core: Core, x: TensorLike, given: LogSumExpOptions = NONE): Tensor {
  const fn = "logSumExp";
  const options = readOptions(fn, given, LOG_SUM_EXP_OPTIONS);
  const input = readOperand(core, fn, "x", x);
  const keepDims = readFlag(fn, "keepDims", options.keepDims);
  const axes = readAxes(options.axis === undefined ? -1 : options.axis, input.shape.length);
  const kept = input.shape.map((length, i) => (axes.includes(i) ? 1 : length));
  const shape = keepDims ? kept : kept.filter((_, i) => !axes.includes(i));
  const out = readOut(core, fn, options.out, shape);
  checkAlias(fn, out, "x", input);
  const result = new Result(core, fn, shape, out, options.out, input.resident);
  const runs = runsOf(axes);
  if (runs.length > 1) return reduceRuns(core, input, runs, result);
  const { length } = input.shape;
  const [first, last] = runs[0] ?? [length, length]; // over no axes, each element is by itself
  const e = extents(input.shape, first, last);
  const parts = cut(e.outer, [input], result);
  reserve(core, fn, partBytes(core.memory, input, parts) + resultBytes(result, parts), [result]);
  runInParts(core.memory, parts, [input], [result], (at, begin, end) =>
    runKernel(core, core.kernels.LOG_SUM_EXP, e, at[0]!, at[1]!, end - begin),
  );
  return result.close();
}

/**
 * Axes apart from each other, reduced one run of neighbours after the other. What lies between is no larger than x, an
 * empty axis counting as the 1 that it becomes.
 */
function reduceRuns(
  core: Core,
  input: Operand,
  runs: readonly [first: number, last: number][],
  result: Result,
): Tensor {
  const { memory, kernels } = core;
  const stepBytes = sizeOf(input.shape.map((length) => Math.max(length, 1))) * 4;
  const bytes = memory.stagedBytes(input) + result.stagedBytes();
  reserve(core, "logSumExp", bytes + 2 * blockBytes(stepBytes), [result]);
  let from = memory.stageOperand(input);
  const to = result.stage();
  const steps = [memory.stage(stepBytes), memory.stage(stepBytes)] as const;
  const left = [...input.shape];
  runs.forEach(([first, last], i) => {
    const target = i === runs.length - 1 ? to : steps[i % 2 === 0 ? 0 : 1];
    const e = extents(left, first, last);
    runKernel(core, kernels.LOG_SUM_EXP, e, from, target, e.outer);
    left.fill(1, first, last + 1);
    from = target;
  });
  return result.finish(to);
}

// scaledDotProductAttention: checks the problem, stages it, calls the kernel once.
import {
  checkScoreAlias,
  type Inputs,
  lseShape,
  outShape,
  readInputs,
  SCORE_OPTIONS,
} from "./attention-problem.ts";
import { attend, inputBytes, scratchBytes } from "./attention-staging.ts";
import { blockBytes } from "./memory.ts";
import { makeResults, type Result, reserve } from "./result.ts";
import { NONE, readFlag, readOptions } from "./shapes.ts";
import { type Core, checkAlias, type Operand, readOut } from "./tensor.ts";
import type { AttentionOptions, AttentionWithLse } from "./types/attention.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

const FN = "scaledDotProductAttention";
const OPTIONS: ReadonlySet<keyof AttentionOptions> = new Set([...SCORE_OPTIONS, "returnLse", "out"]);

/** The options that say what becomes of the result. */
type ResultOptions = Pick<AttentionOptions, "returnLse" | "out">;

/** Checks the `out` option. */
function readOutOption(core: Core, fn: string, inputs: Inputs, options: ResultOptions): Operand | undefined {
  if (options.out === undefined) return undefined;
  const out = readOut(core, fn, options.out, outShape(inputs));
  checkAlias(fn, out, "query", inputs.q);
  checkAlias(fn, out, "key", inputs.k);
  checkAlias(fn, out, "value", inputs.v);
  checkScoreAlias(fn, out, inputs);
  return out;
}

/** Attention over operands that are checked: makes the results, copies in what must be, and runs the kernel. */
export function computeAttention(
  core: Core,
  fn: string,
  inputs: Inputs,
  options: ResultOptions,
): Tensor | AttentionWithLse {
  const returnLse = readFlag(fn, "returnLse", options.returnLse);
  const given = readOutOption(core, fn, inputs, options);
  const resident = inputs.q.resident && inputs.k.resident && inputs.v.resident;
  const shapes = returnLse ? [outShape(inputs), lseShape(inputs)] : [outShape(inputs)];
  const results = makeResults(core, fn, shapes, resident, given, options.out);
  const [result, lse] = results as [Result, Result | undefined];
  let outAddress = 0;
  let lseAddress = 0;
  if (result.size > 0 || (lse !== undefined && lse.size > 0)) {
    const { memory } = core;
    const scratch = scratchBytes(core, inputs.p);
    const resultBytes = result.stagedBytes + (lse === undefined ? 0 : lse.stagedBytes);
    reserve(core, fn, inputBytes(core, inputs) + resultBytes + blockBytes(scratch), results);
    outAddress = result.stage();
    lseAddress = lse === undefined ? 0 : lse.stage();
    attend(core, inputs, { out: outAddress, lse: lseAddress, scratch: memory.stage(scratch) });
  }
  const out = result.finish(outAddress);
  return lse === undefined ? out : { out, lse: lse.finish(lseAddress) };
}

export function scaledDotProductAttention(
  core: Core,
  query: TensorLike,
  key: TensorLike,
  value: TensorLike,
  given: AttentionOptions = NONE,
): Tensor | AttentionWithLse {
  const options = readOptions(FN, given, OPTIONS);
  return computeAttention(core, FN, readInputs(core, FN, query, key, value, options), options);
}

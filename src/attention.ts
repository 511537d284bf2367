// scaledDotProductAttention: checks the problem, stages it, calls the kernel once.
import {
  type Inputs,
  inputBytes,
  lseShape,
  outShape,
  readInputs,
  SCORE_OPTIONS,
  stageInputs,
} from "./attention-problem.ts";
import { blockBytes } from "./memory.ts";
import { readFlag, readOptions } from "./shapes.ts";
import { type Core, checkAlias, type Operand, Result, readOut, reserve } from "./tensor.ts";
import type { AttentionOptions, AttentionWithLse, Tensor, TensorLike } from "./types.ts";

const FN = "scaledDotProductAttention";
const OPTIONS: ReadonlySet<string> = new Set([...SCORE_OPTIONS, "returnLse", "out"]);
const NONE: AttentionOptions = {};

/** The options that say what becomes of the result. */
type ResultOptions = Pick<AttentionOptions, "returnLse" | "out">;

/** Checks the `out` option. */
function readOutOption(core: Core, fn: string, inputs: Inputs, options: ResultOptions): Operand | undefined {
  if (options.out === undefined) return undefined;
  const out = readOut(core, fn, options.out, outShape(inputs));
  const { q, k, v, mask, alibiSlopes, sinks } = inputs;
  checkAlias(fn, out, "query", q);
  checkAlias(fn, out, "key", k);
  checkAlias(fn, out, "value", v);
  if (mask?.additive !== undefined) checkAlias(fn, out, "attnMask", mask.additive);
  if (alibiSlopes !== undefined) checkAlias(fn, out, "alibiSlopes", alibiSlopes);
  if (sinks !== undefined) checkAlias(fn, out, "sinks", sinks);
  return out;
}

/** Results of the call: the output, and the log-sum-exp where it is asked for. */
function makeResults(
  core: Core,
  fn: string,
  inputs: Inputs,
  options: ResultOptions,
): [Result, Result | undefined] {
  const returnLse = readFlag(fn, "returnLse", options.returnLse);
  const out = readOutOption(core, fn, inputs, options);
  const resident = inputs.q.resident && inputs.k.resident && inputs.v.resident;
  const result = new Result(core, fn, outShape(inputs), out, options.out, resident);
  if (!returnLse) return [result, undefined];
  try {
    return [result, new Result(core, fn, lseShape(inputs), undefined, undefined, resident)];
  } catch (error) {
    result.abandon();
    throw error;
  }
}

/** Copies in what does not live in Wasm memory, and runs the kernel. */
function run(
  core: Core,
  fn: string,
  inputs: Inputs,
  result: Result,
  lse: Result | undefined,
): Tensor | AttentionWithLse {
  const { kernels, memory } = core;
  const { p } = inputs;
  let outAddress = 0;
  let lseAddress = 0;
  if (result.size > 0 || (lse !== undefined && lse.size > 0)) {
    const scratchBytes = kernels.attentionScratchBytes(p.numHeads, p.numKvHeads, p.lq, p.lk, p.d, p.dv);
    const resultBytes = result.stagedBytes + (lse === undefined ? 0 : lse.stagedBytes);
    reserve(core, fn, inputBytes(core, inputs) + resultBytes + blockBytes(scratchBytes), result, lse);
    outAddress = result.stage();
    lseAddress = lse === undefined ? 0 : lse.stage();
    const scratch = memory.stage(scratchBytes);
    const params = stageInputs(core, inputs, { out: outAddress, lse: lseAddress, scratch });
    const items = kernels.attentionWorkItems(p.batch, p.numHeads, p.numKvHeads, p.lq, p.lk, p.d);
    kernels.attention(params, 0, items);
  }
  const out = result.finish(outAddress);
  return lse === undefined ? out : { out, lse: lse.finish(lseAddress) };
}

/** Attention over operands that are checked. */
export function computeAttention(
  core: Core,
  fn: string,
  inputs: Inputs,
  options: ResultOptions,
): Tensor | AttentionWithLse {
  const [result, lse] = makeResults(core, fn, inputs, options);
  return run(core, fn, inputs, result, lse);
}

export function scaledDotProductAttention(
  core: Core,
  query: TensorLike,
  key: TensorLike,
  value: TensorLike,
  given: AttentionOptions = NONE,
): Tensor | AttentionWithLse {
  const options = given === NONE ? NONE : readOptions(FN, given, OPTIONS);
  return computeAttention(core, FN, readInputs(core, FN, query, key, value, options), options);
}

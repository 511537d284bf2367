// scaledDotProductAttention: checks the problem, stages it, calls the kernel, for long operands part after part.
import { noteCall } from "./attention-again.ts";
import {
  checkScoreAlias,
  type Inputs,
  lseShape,
  outShape,
  readInputs,
  SCORE_OPTIONS,
} from "./attention-problem.ts";
import { attend, otherBytes, scratchBytes, stageOthers, workItems } from "./attention-staging.ts";
import { blockBytes } from "./memory.ts";
import { writeOperands } from "./params.ts";
import { type Cut, cut, partBytes, resultBytes, runInParts, WHOLE } from "./parts.ts";
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
  if (result.size > 0 || (lse !== undefined && lse.size > 0)) run(core, fn, inputs, results);
  const out = result.close();
  return lse === undefined ? out : { out, lse: lse.close() };
}

/**
 * The key/value heads of all batch entries, each with the query heads that read it, or in layout blhd, where heads lie
 * between each other, the batch entries. Whole where an operand serves all batch entries.
 */
function cutHeads({ p, q, k, v }: Inputs, out: Result): Cut {
  if (Math.min(p.queryBatch, p.keyBatch, p.valueBatch) < p.batch) return WHOLE;
  return cut(p.isBlhd ? p.batch : p.batch * p.numKvHeads, [q, k, v], out);
}

/** Makes room, and computes at once or part after part. */
function run(core: Core, fn: string, inputs: Inputs, results: readonly Result[]): void {
  const { memory } = core;
  const { q, k, v, p } = inputs;
  const parts = cutHeads(inputs, results[0]!);
  const scratchSize = scratchBytes(core, p);
  let bytes = otherBytes(core, inputs) + blockBytes(scratchSize);
  bytes += partBytes(memory, q, parts) + partBytes(memory, k, parts) + partBytes(memory, v, parts);
  for (const result of results) bytes += resultBytes(result, parts);
  reserve(core, fn, bytes, results);
  const scratch = memory.stage(scratchSize);
  if (parts.step >= parts.units) attendWhole(core, inputs, scratch, results);
  else attendInParts(core, inputs, scratch, results, parts);
}

/** Not by runInParts, which would take a sixth longer for a small call. */
function attendWhole(core: Core, inputs: Inputs, scratch: number, results: readonly Result[]): void {
  const [out, lse] = results as [Result, Result | undefined];
  const to = out.stage();
  const toLse = lse === undefined ? core.kernels.NO_LSE : lse.stage();
  attend(core, inputs, to, toLse, scratch);
  out.take(to, 0, out.size);
  if (lse !== undefined) lse.take(toLse, 0, lse.size);
}

/** Brings in the other inputs as a whole, and then query, key and value part after part. */
function attendInParts(
  core: Core,
  inputs: Inputs,
  scratch: number,
  results: readonly Result[],
  parts: Cut,
): void {
  const { memory, kernels } = core;
  const { q, k, v, p } = inputs;
  const params = stageOthers(core, inputs, scratch);
  const [out, lse] = results as [Result, Result | undefined];
  const items = workItems(core, p) / parts.units;
  runInParts(memory, parts, [q, k, v], results, (at, begin, end) => {
    // The kernel counts heads and batch entries from the first of all, so it gets the addresses that belong to those.
    const before = (size: number) => (size / parts.units) * begin * 4;
    const query = at[0]! - before(q.size);
    const key = at[1]! - before(k.size);
    const value = at[2]! - before(v.size);
    const to = lse === undefined ? kernels.NO_LSE : at[4]! - before(lse.size);
    writeOperands(core, params, query, key, value, at[3]! - before(out.size), to);
    kernels.attention(params, begin * items, end * items);
  });
}

export function scaledDotProductAttention(
  core: Core,
  query: TensorLike,
  key: TensorLike,
  value: TensorLike,
  given: AttentionOptions = NONE,
): Tensor | AttentionWithLse {
  const again = core.again?.run(query, key, value, given);
  if (again !== undefined) return again;
  const options = readOptions(FN, given, OPTIONS);
  const inputs = readInputs(core, FN, query, key, value, options);
  const result = computeAttention(core, FN, inputs, options);
  noteCall(core, inputs, options);
  return result;
}

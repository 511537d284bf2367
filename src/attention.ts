// scaledDotProductAttention: checks the problem, stages it, calls the kernel once.
import { noteCall } from "./attention-again.ts";
import {
  checkScoreAlias,
  type Inputs,
  lseShape,
  outShape,
  readInputs,
  SCORE_OPTIONS,
} from "./attention-problem.ts";
import { attend, inputBytes, otherBytes, scratchBytes, stageOthers, workItems } from "./attention-staging.ts";
import { blockBytes } from "./memory.ts";
import { writeParts } from "./params.ts";
import { type Cut, cut, partBytes, resultBytes, runInParts } from "./parts.ts";
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
  if (result.size > 0 || (lse !== undefined && lse.size > 0)) {
    const parts = cutHeads(inputs, result);
    if (parts.step < parts.units) attendInParts(core, fn, inputs, parts, results);
    else attendWhole(core, fn, inputs, results);
  }
  const out = result.close();
  return lse === undefined ? out : { out, lse: lse.close() };
}

function attendWhole(core: Core, fn: string, inputs: Inputs, results: readonly Result[]): void {
  const { memory } = core;
  const [out, lse] = results as [Result, Result | undefined];
  const scratchSize = scratchBytes(core, inputs.p);
  const resultBytes = out.stagedBytes() + (lse === undefined ? 0 : lse.stagedBytes());
  reserve(core, fn, inputBytes(core, inputs) + resultBytes + blockBytes(scratchSize), results);
  const to = {
    out: out.stage(),
    lse: lse === undefined ? 0 : lse.stage(),
    scratch: memory.stage(scratchSize),
  };
  attend(core, inputs, to);
  out.take(to.out, 0, out.size);
  if (lse !== undefined) lse.take(to.lse, 0, lse.size);
}

/**
 * The key/value heads of all batch entries, each with the query heads that read it, or in layout blhd, where heads lie
 * between each other, the batch entries. Whole where an operand serves all batch entries, or parts would meet.
 */
function cutHeads({ p, q, k, v }: Inputs, out: Result): Cut {
  const units = p.isBlhd ? p.batch : p.batch * p.numKvHeads;
  const isShared = Math.min(p.queryBatch, p.keyBatch, p.valueBatch) < p.batch;
  return isShared ? { units, step: units } : cut(units, [q, k, v], out);
}

/** Part after part of query, key and value; the other inputs are brought in before, as a whole. */
function attendInParts(core: Core, fn: string, inputs: Inputs, parts: Cut, results: readonly Result[]): void {
  const { memory, kernels } = core;
  const { q, k, v, p } = inputs;
  const operands = [q, k, v];
  const scratchSize = scratchBytes(core, p);
  let bytes = otherBytes(core, inputs) + blockBytes(scratchSize);
  for (const operand of operands) bytes += partBytes(memory, operand, parts);
  for (const result of results) bytes += resultBytes(result, parts);
  reserve(core, fn, bytes, results);
  const to = { out: 0, lse: 0, scratch: memory.stage(scratchSize) };
  const params = stageOthers(core, inputs, 0, 0, 0, to);
  const items = workItems(core, p) / parts.units;
  runInParts(memory, parts, operands, results, (addresses, begin, end) => {
    const [query, key, value, out, lse] = addresses as [number, number, number, number, number?];
    writeParts(core, params, query, key, value, out, lse ?? 0);
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
  noteCall(core, inputs, options, result);
  return result;
}

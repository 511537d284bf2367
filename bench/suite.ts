import type { Runtime } from "wasm-attention";
import type { Case } from "./cases.ts";
import type { Ceiling } from "./ceiling.ts";
import { label, randomInputs } from "./facts.ts";
import { measure } from "./measure.ts";
import { addCase, caseColumns, type Report } from "./report.ts";
import type { Effort } from "./stopwatch.ts";
import { verify } from "./verify.ts";

/** What each bench is handed by run.ts. */
export interface Context {
  readonly runtime: Runtime;
  /** The ceiling of the variant that the runtime is of. */
  readonly ceiling: Ceiling;
  readonly report: Report;
  readonly effort: Effort;
  /** Only cases whose label holds this text. */
  readonly filter: string;
}

/** One way to compute a case. */
export interface Candidate {
  /** Where the operands are, or whose implementation it is. */
  readonly how: string;
  /** What is timed. The data of the result is read by verify alone. */
  readonly run: () => { readonly data: Float32Array };
  dispose?(): void;
}

/**
 * Runs every candidate of every case that passes the filter: computes, verifies, times, and verifies
 * what the last of all those calls returned. A wrong result ends the run.
 */
export async function runSuite<C extends Case>(
  title: string,
  cases: readonly C[],
  context: Context,
  candidates: (c: C, inputs: readonly Float32Array[], runtime: Runtime) => readonly Candidate[],
): Promise<void> {
  const chosen = cases.filter((c) => label(c).includes(context.filter));
  if (chosen.length === 0) return;
  context.report.section(title, caseColumns);
  for (const c of chosen) {
    const inputs = randomInputs(c);
    for (const candidate of candidates(c, inputs, context.runtime)) {
      await runCandidate(c, inputs, candidate, context);
      candidate.dispose?.();
    }
  }
}

async function runCandidate(
  c: Case,
  inputs: readonly Float32Array[],
  candidate: Candidate,
  { ceiling, effort, report }: Context,
): Promise<void> {
  verify(c, inputs, candidate.run().data);
  const measurement = await measure(c, candidate.run, ceiling, effort);
  verify(c, inputs, (measurement.last as { data: Float32Array }).data);
  addCase(report, c, candidate.how, measurement);
}

import type { Case } from "./cases.ts";
import type { Ceiling } from "./ceiling.ts";
import { bytes, flops } from "./facts.ts";
import { disagreement, median, quantile } from "./statistics.ts";
import { type Burst, createStopwatch, type Effort, LONG_CALL_MS } from "./stopwatch.ts";

/** Milliseconds of one call. */
export interface Timing {
  readonly median: number;
  readonly p25: number;
  readonly p75: number;
  readonly samples: number;
  /** Calls averaged in one sample. */
  readonly callsPerSample: number;
}

/** The least time that a case can take on this machine, and what bounds it. */
export interface Bound {
  readonly ms: number;
  readonly by: "arithmetic" | "bandwidth";
  /** The rate that bounds: GFLOP/s or GB/s. */
  readonly rate: number;
}

/** A burst with what the machine could do before it and after it. */
export interface Round extends Burst {
  readonly before: Bound;
  readonly after: Bound;
}

export interface Conclusion {
  readonly timing: Timing;
  /** The median of the probes. */
  readonly bound: Bound;
  /** Least time over time taken, each round against its own two probes; the median of the rounds. */
  readonly share: number;
  /** The machine was not the same throughout: the ratio of such a row says little. */
  readonly isNoisy: boolean;
}

/** Probes further apart than this are noise. */
const NOISE = 0.1;

/** A burst in which this thread ran for less of the time was disturbed. */
const CPU_SHARE = 0.9;

/** Times a case, and returns what the last of the calls returned as well. */
export async function measure(
  c: Case,
  call: () => unknown,
  ceiling: Ceiling,
  effort: Effort,
): Promise<Conclusion & { last: unknown }> {
  const stopwatch = await createStopwatch(call, effort);
  const rounds: Round[] = [];
  while (wantsRound(rounds, effort)) {
    rounds.push(
      await takeRound(
        () => stopwatch.burst(),
        () => probeBound(c, ceiling),
      ),
    );
  }
  return { ...conclude(rounds, stopwatch.callsPerSample), last: stopwatch.last };
}

export async function takeRound(burst: () => Promise<Burst>, probe: () => Bound): Promise<Round> {
  const before = probe();
  const { samples, cpuShare } = await burst();
  return { samples, cpuShare, before, after: probe() };
}

/** Noisy rounds are made up for by others, up to as many again; a long call has one round. */
export function wantsRound(rounds: readonly Round[], effort: Effort): boolean {
  if ((rounds[0]?.samples[0] ?? 0) > LONG_CALL_MS) return false;
  return rounds.filter(isQuiet).length < effort.rounds && rounds.length < 2 * effort.rounds;
}

function isQuiet({ before, after, cpuShare }: Round): boolean {
  return disagreement([before.ms, after.ms]) <= NOISE && cpuShare >= CPU_SHARE;
}

function shareOf({ samples, before, after }: Round): number {
  return (before.ms + after.ms) / 2 / median(samples);
}

/** Medians over the quiet rounds, or over all where none was quiet. */
export function conclude(rounds: readonly Round[], callsPerSample: number): Conclusion {
  const quiet = rounds.filter(isQuiet);
  const used = quiet.length > 0 ? quiet : rounds;
  const samples = used.flatMap((round) => round.samples);
  const bounds = used.flatMap(({ before, after }) => [before, after]).sort((a, b) => a.ms - b.ms);
  return {
    timing: {
      median: median(samples),
      p25: quantile(samples, 0.25),
      p75: quantile(samples, 0.75),
      samples: samples.length,
      callsPerSample,
    },
    bound: bounds[bounds.length >> 1] as Bound,
    share: median(used.map(shareOf)),
    isNoisy: quiet.length < rounds.length / 2 || disagreement(bounds.map(({ ms }) => ms)) > NOISE,
  };
}

/** The roofline: arithmetic at the ceiling of the multiply-add, or the bytes at the rate of reading as many. */
export function probeBound(c: Case, ceiling: Ceiling): Bound {
  const gflops = ceiling.multiplyAdds();
  const gigabytes = ceiling.read(bytes(c));
  const arithmeticMs = flops(c) / gflops / 1e6;
  const bandwidthMs = bytes(c) / gigabytes / 1e6;
  return arithmeticMs >= bandwidthMs
    ? { ms: arithmeticMs, by: "arithmetic", rate: gflops }
    : { ms: bandwidthMs, by: "bandwidth", rate: gigabytes };
}

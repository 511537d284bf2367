import { Bench, type Task } from "tinybench";
import { median } from "./statistics.ts";

/** How long to time, in milliseconds: at least so many rounds of a burst each. */
export interface Effort {
  readonly rounds: number;
  readonly burstMs: number;
  readonly warmupMs: number;
}

export const thorough: Effort = { rounds: 5, burstMs: 150, warmupMs: 150 };
export const quick: Effort = { rounds: 3, burstMs: 40, warmupMs: 60 };

/** One sample is at least this long, so that reading the clock costs less than a thousandth of it. */
const SAMPLE_MS = 0.1;

/** Warming up ends when a burst is not faster than those before by more than this, or after MOST_WARMUPS. */
const SETTLED = 0.03;
const MOST_WARMUPS = 8;

/** A call as long as this has warmed itself up, and is timed in one round only. */
export const LONG_CALL_MS = 1000;

export interface Burst {
  /** Milliseconds of one call, one number a sample. */
  readonly samples: readonly number[];
  /** Processor time of this thread over wall time: below one where it had to wait for others. */
  readonly cpuShare: number;
}

/** A warmed-up call and the means to time it again and again. */
export interface Stopwatch {
  readonly callsPerSample: number;
  /** What the last call returned: keeping it is what makes the engine compute it. */
  readonly last: unknown;
  /** Times the call for a while. */
  burst(): Promise<Burst>;
}

/** Warms a call up, sync or async, until it gets no faster, and finds how many make one sample. */
export async function createStopwatch(call: () => unknown, effort: Effort): Promise<Stopwatch> {
  const first = call();
  const isAsync = first instanceof Promise;
  let last = isAsync ? await first : first;
  let callsPerSample = 1;

  const sample = () => {
    const begin = performance.now();
    for (let i = 0; i < callsPerSample; i++) last = call();
    return perCall(performance.now() - begin, callsPerSample);
  };
  const sampleAsync = async () => {
    const begin = performance.now();
    for (let i = 0; i < callsPerSample; i++) last = await call();
    return perCall(performance.now() - begin, callsPerSample);
  };
  const burst = async (milliseconds: number): Promise<number[]> => {
    const bench = new Bench({
      time: milliseconds,
      iterations: 1,
      warmup: false,
      retainSamples: true,
      throws: true,
    });
    bench.add("call", isAsync ? sampleAsync : sample, { async: isAsync });
    const [task] = (isAsync ? await bench.run() : bench.runSync()) as [Task];
    if (task.result.state !== "completed") throw new Error(`tinybench ended as ${task.result.state}`);
    return [...(task.result.latency.samples ?? [])];
  };

  let fastest = Infinity;
  for (let warmup = 0; warmup < MOST_WARMUPS; warmup++) {
    const before = fastest;
    fastest = Math.min(before, median(await burst(effort.warmupMs)));
    callsPerSample = Math.max(1, Math.ceil(SAMPLE_MS / fastest));
    if (fastest > before * (1 - SETTLED) || fastest > LONG_CALL_MS) break;
  }
  return {
    get callsPerSample() {
      return callsPerSample;
    },
    get last() {
      return last;
    },
    async burst() {
      const cpu = process.threadCpuUsage();
      const begin = performance.now();
      const samples = await burst(effort.burstMs);
      const elapsed = performance.now() - begin;
      const { user, system } = process.threadCpuUsage(cpu);
      return { samples, cpuShare: (user + system) / 1000 / elapsed };
    },
  };
}

/** A sample as tinybench takes it: the mean of its calls, and the whole of it against the time to be spent. */
function perCall(
  elapsed: number,
  calls: number,
): { overriddenDuration: number; overriddenIterationCost: number } {
  return { overriddenDuration: elapsed / calls, overriddenIterationCost: elapsed };
}

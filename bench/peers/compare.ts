import { type Bound, type Conclusion, conclude, type Round, takeRound, wantsRound } from "../measure.ts";
import type { Effort } from "../stopwatch.ts";
import type { Place, Work } from "./peer.ts";
import { PeerProcess, type Preparation } from "./peer-process.ts";

/** What came of one peer on one case. */
export interface Outcome {
  readonly adapter: string;
  readonly peer: string;
  /** Why there is no result. */
  readonly failure?: string;
  readonly preparation?: Preparation;
  readonly result?: Conclusion;
}

interface Contender {
  readonly adapter: string;
  readonly process: PeerProcess;
  readonly preparation: Preparation;
  readonly rounds: Round[];
}

export async function startPeers(adapters: readonly string[]): Promise<Map<string, PeerProcess>> {
  const processes = new Map<string, PeerProcess>();
  for (const adapter of adapters) processes.set(adapter, await PeerProcess.start(adapter));
  return processes;
}

/**
 * Sets a case up at each peer, then times all in turn, round after round, so that a change of the machine
 * meets every one of them. A peer that fails is started anew.
 */
export async function compare(
  processes: Map<string, PeerProcess>,
  job: { work: Work; place: Place; effort: Effort },
  probe: () => Bound,
): Promise<Outcome[]> {
  const outcomes = new Map<string, Outcome>();
  const contenders: Contender[] = [];
  for (const [adapter, process] of processes) {
    const preparation = await process.call("prepare", job).catch(async (error: Error) => {
      outcomes.set(adapter, { adapter, peer: process.name, failure: error.message });
      process.stop();
      processes.set(adapter, await PeerProcess.start(adapter));
    });
    if (preparation) contenders.push({ adapter, process, preparation, rounds: [] });
  }

  const unfinished = () => contenders.filter(({ rounds }) => wantsRound(rounds, job.effort));
  for (let turn = unfinished(); turn.length > 0; turn = unfinished()) {
    for (const { process, rounds } of turn) {
      rounds.push(await takeRound(() => process.call("burst", undefined), probe));
    }
  }

  for (const { adapter, process, preparation, rounds } of contenders) {
    await process.call("release", undefined);
    const result = conclude(rounds, preparation.callsPerSample);
    outcomes.set(adapter, { adapter, peer: process.name, preparation, result });
  }
  return [...processes.keys()].flatMap((adapter) => outcomes.get(adapter) ?? []);
}

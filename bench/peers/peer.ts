import { readFileSync } from "node:fs";
import type { AttentionCase, ComparedCase } from "../cases.ts";

/** Short texts to turn into embeddings, one after the other in each call. */
export interface SentencesCase {
  readonly operation: "sentences";
  readonly texts: readonly string[];
}

export type Work = ComparedCase | SentencesCase;

/**
 * Where the operands are: copied = typed arrays go in and come out in every call, as a user pays for it;
 * resident = they were placed in the peer's memory before, and the result stays there.
 */
export type Place = "copied" | "resident";

/** A system to compare with. Each runs alone in its own process, with one thread. */
export interface Peer {
  readonly name: string;
  load?(): Promise<void>;
  /** Sets a case up; undefined where the peer has no such operation. */
  prepare(work: Work, inputs: readonly Float32Array[], place: Place): Prepared | Promise<Prepared>;
}

type Prepared = Operation | undefined;

/** A case that is ready to be run again and again. */
export interface Operation {
  /** What is timed, up to the end of the computation. */
  run(): unknown;
  /** The numbers that run() computes, in row-major order; where it returns them itself, they are not computed again. */
  result?(): Float32Array | Promise<Float32Array>;
  dispose?(): void;
  /** Which of several forms the peer was used in. */
  note?: string;
}

/** Name and version of a package of bench/peers. */
export function packageName(name: string): string {
  const { dependencies } = JSON.parse(readFileSync(new URL("package.json", import.meta.url), "utf8"));
  return `${name} ${dependencies[name]}`;
}

/** [a, b, c, d] to [a, c, b, d]: heads before length to length before heads, and back. */
export function exchangeAxes(
  data: Float32Array,
  shape: readonly [number, number, number, number],
): Float32Array {
  const [a, b, c, d] = shape;
  const exchanged = new Float32Array(data.length);
  let target = 0;
  for (let i = 0; i < a; i++) {
    for (let k = 0; k < c; k++) {
      for (let j = 0; j < b; j++) {
        const source = ((i * b + j) * c + k) * d;
        for (let e = 0; e < d; e++) exchanged[target++] = data[source + e] as number;
      }
    }
  }
  return exchanged;
}

/** What makes a peer causal that has only addition for it: a large negative number on the keys to come. */
export function causalBias({ seqLenQ, seqLenK }: AttentionCase, heads = 1): Float32Array {
  const bias = new Float32Array(heads * seqLenQ * seqLenK);
  for (let row = 0; row < heads * seqLenQ; row++) {
    const visible = Math.min(seqLenK, (row % seqLenQ) + 1);
    bias.fill(-1e30, row * seqLenK + visible, (row + 1) * seqLenK);
  }
  return bias;
}

/** Of several ways to use a peer, the fastest that works: it is to be compared at its best. */
export async function fastestOf(forms: ReadonlyArray<() => Promise<Operation>>): Promise<Operation> {
  let best: Operation | undefined;
  let bestMs = Infinity;
  const failures: unknown[] = [];
  for (const form of forms) {
    try {
      const operation = await form();
      const ms = await shortestRun(operation);
      const isBetter = ms < bestMs;
      (isBetter ? best : operation)?.dispose?.();
      if (isBetter) [best, bestMs] = [operation, ms];
    } catch (failure) {
      failures.push(failure);
    }
  }
  if (!best) throw failures[0];
  return best;
}

async function shortestRun(operation: Operation): Promise<number> {
  let shortest = Infinity;
  for (let run = 0; run < 5; run++) {
    const begin = performance.now();
    await operation.run();
    shortest = Math.min(shortest, performance.now() - begin);
  }
  return shortest;
}

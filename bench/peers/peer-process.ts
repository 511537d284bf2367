import { type ChildProcess, fork } from "node:child_process";
import { once } from "node:events";
import { fileURLToPath } from "node:url";
import type { Burst, Effort } from "../stopwatch.ts";
import type { Place, Work } from "./peer.ts";

/** What a child does when it is told to. */
export interface Commands {
  /** Sets a case up, verifies it and warms it up; undefined where the peer has no such operation. */
  prepare(job: { work: Work; place: Place; effort: Effort }): Promise<Preparation | undefined>;
  /** Times the prepared case for a while. */
  burst(nothing: undefined): Promise<Burst>;
  release(nothing: undefined): Promise<void>;
}

export interface Preparation {
  /** Largest error as a multiple of that of plain float32 loops. */
  readonly error: number | undefined;
  /** Embeddings, which are verified by comparing two peers. */
  readonly output: Float32Array | undefined;
  readonly note: string;
  readonly callsPerSample: number;
}

export interface Request {
  readonly command: keyof Commands;
  readonly argument: unknown;
}

export type Response = { readonly value: unknown } | { readonly error: string };

/** The parent's end of a child. */
export class PeerProcess {
  readonly name: string;
  readonly #child: ChildProcess;

  private constructor(name: string, child: ChildProcess) {
    this.name = name;
    this.#child = child;
  }

  /** Starts the adapter of that name. */
  static async start(adapter: string): Promise<PeerProcess> {
    const script = fileURLToPath(new URL("child.ts", import.meta.url));
    const child = fork(script, [adapter], { serialization: "advanced" });
    return new PeerProcess((await answer(child)) as string, child);
  }

  /** Calls a command in the child; what it throws there is thrown here. */
  async call<K extends keyof Commands>(
    command: K,
    argument: Parameters<Commands[K]>[0],
  ): Promise<Awaited<ReturnType<Commands[K]>>> {
    this.#child.send({ command, argument } satisfies Request);
    return (await answer(this.#child)) as Awaited<ReturnType<Commands[K]>>;
  }

  stop(): void {
    if (this.#child.connected) this.#child.disconnect();
  }
}

/** The next message of a child, or an error if it dies first. */
async function answer(child: ChildProcess): Promise<unknown> {
  const abort = new AbortController();
  const exit = once(child, "exit", { signal: abort.signal }).then(([code, signal]) => {
    throw new Error(`the process ended with ${signal ?? `code ${code}`}`);
  });
  exit.catch(() => {});
  try {
    const [response] = (await Promise.race([once(child, "message"), exit])) as [Response];
    if ("error" in response) throw new Error(response.error);
    return response.value;
  } finally {
    abort.abort();
  }
}

// One peer in a process of its own, driven by peer-process.ts: node child.ts NAME

import { randomInputs } from "../facts.ts";
import { createStopwatch, type Stopwatch } from "../stopwatch.ts";
import { verify } from "../verify.ts";
import type { Operation, Peer } from "./peer.ts";
import type { Commands, Request, Response } from "./peer-process.ts";

/**
 * How far off a peer may be, in errors of plain float32 loops, before it is not the same computation any
 * more: jax-js, with its short series for exp, is off by a few.
 */
const SLACK = 64;

const { default: peer }: { default: Peer } = await import(`./adapters/${process.argv[2]}.ts`);
await peer.load?.();

let operation: Operation | undefined;
let stopwatch: Stopwatch | undefined;

const commands: Commands = {
  async prepare({ work, place, effort }) {
    const inputs = work.operation === "sentences" ? [] : randomInputs(work);
    operation = await peer.prepare(work, inputs, place);
    if (!operation) return undefined;
    const output = (await (operation.result ?? operation.run)()) as Float32Array;
    const error = work.operation === "sentences" ? undefined : verify(work, inputs, output, SLACK);
    stopwatch = await createStopwatch(operation.run, effort);
    return {
      error,
      output: work.operation === "sentences" ? output : undefined,
      note: operation.note ?? "",
      callsPerSample: stopwatch.callsPerSample,
    };
  },
  async burst() {
    if (!stopwatch) throw new Error("nothing is prepared");
    return stopwatch.burst();
  },
  async release() {
    operation?.dispose?.();
    operation = undefined;
    stopwatch = undefined;
  },
};

process.on("message", async ({ command, argument }: Request) => {
  try {
    respond({ value: await commands[command](argument as never) });
  } catch (error) {
    respond({ error: error instanceof Error ? error.message : String(error) });
  }
});
process.on("disconnect", () => process.exit());
respond({ value: peer.name });

function respond(response: Response): void {
  process.send?.(response);
}

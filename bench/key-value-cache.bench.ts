import type { Runtime } from "wasm-attention";
import { type AttentionCase, cacheCases } from "./cases.ts";
import { type Candidate, type Context, runSuite } from "./suite.ts";

/** A decode step against a KeyValueCache: float16 storage has half the bytes to read, and widens them. */
export async function cacheBench(context: Context): Promise<void> {
  await runSuite("cache", cacheCases, context, cacheCandidates);
}

function cacheCandidates(c: AttentionCase, inputs: readonly Float32Array[], runtime: Runtime): Candidate[] {
  const { batchSize: batch, numKvHeads, headDim, seqLenK: capacity, kvDtype: dtype } = c;
  const [q, k, v] = inputs as [Float32Array, Float32Array, Float32Array];
  const kvShape = [batch, numKvHeads, capacity, headDim];
  const cache = runtime.keyValueCache({ batch, numKvHeads, headDim, capacity, dtype });
  cache.append({ data: k, shape: kvShape }, { data: v, shape: kvShape });
  const query = runtime.tensor([batch, c.numHeads, c.seqLenQ, headDim], q);
  const out = runtime.tensor(query.shape);
  const dispose = () => {
    for (const owned of [cache, query, out]) owned.dispose();
  };
  return [{ how: "cache", run: () => cache.attend(query, { out }), dispose }];
}

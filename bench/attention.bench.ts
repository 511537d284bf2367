import type { Runtime } from "wasm-attention";
import { type AttentionCase, attentionCases, decodeCases, skippingCases } from "./cases.ts";
import { attentionOptions } from "./facts.ts";
import { type Candidate, type Context, runSuite } from "./suite.ts";

/** Attention with many queries, then with one against a cache of keys, then where much is not seen. */
export async function attentionBench(context: Context): Promise<void> {
  await runSuite("attention", attentionCases, context, attentionCandidates);
  await runSuite("decode", decodeCases, context, attentionCandidates);
  await runSuite("skipping", skippingCases, context, attentionCandidates);
}

/**
 * Copied: typed arrays in, a new typed array out, whose memory the system hands over page by page; with `out` into one
 * that is there. Resident: all four tensors stay in Wasm memory.
 */
export function attentionCandidates(
  c: AttentionCase,
  inputs: readonly Float32Array[],
  runtime: Runtime,
): Candidate[] {
  const queryShape = [c.batchSize, c.numHeads, c.seqLenQ, c.headDim];
  const keyShape = [c.batchSize, c.numKvHeads, c.seqLenK, c.headDim];
  const [q, k, v] = inputs as [Float32Array, Float32Array, Float32Array];
  const query = { data: q, shape: queryShape };
  const key = { data: k, shape: keyShape };
  const value = { data: v, shape: keyShape };
  const options = attentionOptions(c);
  const plainOptions = { ...options, out: { data: new Float32Array(q.length), shape: queryShape } };

  const residents = [
    runtime.tensor(queryShape, q),
    runtime.tensor(keyShape, k),
    runtime.tensor(keyShape, v),
    runtime.tensor(queryShape),
  ] as const;
  const [residentQuery, residentKey, residentValue, out] = residents;
  const residentOptions = { ...options, out };

  return [
    { how: "copied", run: () => runtime.scaledDotProductAttention(query, key, value, options) },
    { how: "copied, out", run: () => runtime.scaledDotProductAttention(query, key, value, plainOptions) },
    {
      how: "resident",
      run: () =>
        runtime.scaledDotProductAttention(residentQuery, residentKey, residentValue, residentOptions),
      dispose: () => {
        for (const tensor of residents) tensor.dispose();
      },
    },
  ];
}

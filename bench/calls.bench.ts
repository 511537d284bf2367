import type { Runtime } from "wasm-attention";
import { attentionCandidates } from "./attention.bench.ts";
import { type ForwardCase, tinyCases } from "./cases.ts";
import { matmulCandidates } from "./gemm.bench.ts";
import { plainAttention, plainMatmul, plainSoftmax } from "./plain.ts";
import { softmaxCandidates } from "./softmax.bench.ts";
import { type Candidate, type Context, runSuite } from "./suite.ts";

/** Calls too small for their arithmetic to matter: what validation, copies and the result cost, next to plain loops. */
export async function callsBench(context: Context): Promise<void> {
  await runSuite("calls", tinyCases, context, (c, inputs, runtime) => [
    ...ours(c, inputs, runtime),
    { how: "plain JavaScript", run: () => ({ data: plain(c, inputs) }) },
  ]);
}

function ours(c: ForwardCase, inputs: readonly Float32Array[], runtime: Runtime): Candidate[] {
  switch (c.operation) {
    case "attention":
      return attentionCandidates(c, inputs, runtime);
    case "matmul":
      return matmulCandidates(c, inputs, runtime);
    case "softmax":
      return softmaxCandidates(c, inputs, runtime);
  }
}

export function plain(c: ForwardCase, inputs: readonly Float32Array[]): Float32Array {
  const [first, second, third] = inputs as [Float32Array, Float32Array, Float32Array];
  switch (c.operation) {
    case "attention":
      return plainAttention(c, first, second, third);
    case "matmul":
      return plainMatmul(c, first, second);
    case "softmax":
      return plainSoftmax(c, first);
  }
}

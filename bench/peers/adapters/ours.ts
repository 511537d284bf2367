import { readFileSync } from "node:fs";
import { SentenceEncoder } from "../../../examples/sentence-search/encoder.mjs";
import { loadModel } from "../../../examples/sentence-search/weights.mjs";
import { attentionCandidates } from "../../attention.bench.ts";
import { matmulCandidates } from "../../gemm.bench.ts";
import { createRuntimeSync } from "../../runtime.ts";
import { softmaxCandidates } from "../../softmax.bench.ts";
import type { Candidate } from "../../suite.ts";
import type { Operation, Peer, Place, SentencesCase } from "../peer.ts";

const { version } = JSON.parse(readFileSync(new URL("../../../package.json", import.meta.url), "utf8"));
const runtime = createRuntimeSync();

const peer: Peer = {
  name: `wasm-attention ${version} ${runtime.info().variant}`,
  prepare(work, inputs, place) {
    switch (work.operation) {
      case "attention":
        return operationOf(attentionCandidates(work, inputs, runtime), place);
      case "matmul":
        return operationOf(matmulCandidates(work, inputs, runtime), place);
      case "softmax":
        return operationOf(softmaxCandidates(work, inputs, runtime), place);
      case "sentences":
        return place === "copied" ? encodeSentences(work) : undefined;
    }
  },
};

/** What the benches time, they time here too. */
function operationOf(candidates: readonly Candidate[], place: Place): Operation | undefined {
  const candidate = candidates.find(({ how }) => how === place);
  return (
    candidate && {
      run: candidate.run,
      result: () => candidate.run().data,
      dispose() {
        for (const { dispose } of candidates) dispose?.();
      },
    }
  );
}

async function encodeSentences({ texts }: SentencesCase): Promise<Operation> {
  const encoder = new SentenceEncoder(runtime, await loadModel());
  const run = () => texts.map((text) => encoder.encode(text));
  return { run, result: () => Float32Array.from(run().flatMap((embedding) => [...embedding])) };
}

export default peer;

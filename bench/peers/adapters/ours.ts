import { readFileSync } from "node:fs";
import type { ResidentTensor, Tensor } from "wasm-attention";
import { SentenceEncoder } from "../../../examples/sentence-search/encoder.mjs";
import { loadModel } from "../../../examples/sentence-search/weights.mjs";
import { attentionCandidates } from "../../attention.bench.ts";
import type { BackwardCase } from "../../cases.ts";
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
      case "backward":
        return backward(work, inputs, place);
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

/** Forward and backward, as others compute a gradient. */
function backward(c: BackwardCase, inputs: readonly Float32Array[], place: Place): Operation {
  const queryShape = [c.batchSize, c.numHeads, c.seqLenQ, c.headDim];
  const keyShape = [c.batchSize, c.numKvHeads, c.seqLenK, c.headDim];
  const operands = inputs.map((data, i) => {
    const shape = i === 0 || i === 3 ? queryShape : keyShape;
    return place === "resident" ? runtime.tensor(shape, data) : { data, shape };
  }) as [Tensor, Tensor, Tensor, Tensor];
  const [query, key, value, dOut] = operands;
  const dispose = (...tensors: object[]) => {
    for (const tensor of tensors) if ("dispose" in tensor) (tensor as ResidentTensor).dispose();
  };
  const compute = () => {
    const { isCausal } = c;
    const results = runtime.scaledDotProductAttention(query, key, value, { isCausal, returnLse: true });
    const inputsOfBackward = { query, key, value, dOut, ...results, isCausal };
    const gradients = runtime.scaledDotProductAttentionBackward(inputsOfBackward);
    dispose(results.out, results.lse);
    return gradients;
  };
  return {
    run: () => dispose(...Object.values(compute())),
    result() {
      const gradients = compute();
      const dQuery = gradients.dQuery.data.slice();
      dispose(...Object.values(gradients));
      return dQuery;
    },
    dispose: () => dispose(...operands),
    note: "forward and backward",
  };
}

async function encodeSentences({ texts }: SentencesCase): Promise<Operation> {
  const encoder = new SentenceEncoder(runtime, await loadModel());
  const run = () => texts.map((text) => encoder.encode(text));
  return { run, result: () => Float32Array.from(run().flatMap((embedding) => [...embedding])) };
}

export default peer;

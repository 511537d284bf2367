// node bench/peers/sentences.ts [--quick]: the time of one sentence embedding, here and in @energetic-ai/embeddings

import { parseArgs } from "node:util";
import { loadCeiling } from "../ceiling.ts";
import type { Bound } from "../measure.ts";
import { type Columns, createReport, duration, runFacts } from "../report.ts";
import { quick, thorough } from "../stopwatch.ts";
import { compare, startPeers } from "./compare.ts";
import { installPeers } from "./install.ts";

/** One word, which is mostly the reading of the weights, and sentences of 8 to 10 tokens, which are mostly arithmetic. */
const word = ["hello"];
const sentences = [
  "How do I reset my password?",
  "The train to Lyon leaves at nine.",
  "Add two eggs and stir until smooth.",
  "My order has not arrived yet.",
  "What is the capital of Australia?",
  "She plays the violin in an orchestra.",
  "Rain is expected in the afternoon.",
  "Can I bring my dog to the office?",
];

/** The two compute the same network on the same weights: no number may differ by more. */
const TOLERANCE = 1e-5;

const columns: Columns = [
  ["encoder", 32],
  ["a sentence", 10],
  ["p25 - p75", 17],
  ["samples", 7],
  ["time / ours", 11],
  ["note", 5],
];

const { values } = parseArgs({ options: { quick: { type: "boolean", default: false } } });
const effort = values.quick ? quick : thorough;

installPeers();
const ceiling = (await loadCeiling("relaxed")) ?? (await loadCeiling("simd"));
if (!ceiling) throw new Error("bench/peers: this engine has no WebAssembly SIMD");

/** No bound is claimed for a whole encoder; the rate of the machine still tells whether it was the same throughout. */
const probe = (): Bound => ({
  ms: 1 / ceiling.multiplyAdds(),
  by: "arithmetic",
  rate: ceiling.multiplyAdds(),
});

const processes = await startPeers(["ours", "energetic-ai"]);
const report = createReport(runFacts());
await reportTexts("one word", word);
await reportTexts(`${sentences.length} short sentences, one after the other`, sentences);
for (const process of processes.values()) process.stop();

/** Both encoders on the same texts: first that they agree, then the time of each. */
async function reportTexts(title: string, texts: string[]): Promise<void> {
  const work = { operation: "sentences", texts } as const;
  const outcomes = await compare(processes, { work, place: "copied", effort }, probe);
  for (const { peer, failure } of outcomes) if (failure) throw new Error(`${peer}: ${failure}`);
  const [ours, theirs] = outcomes.map(({ preparation }) => preparation?.output as Float32Array);
  const difference = (ours as Float32Array).reduce(
    (max, x, i) => Math.max(max, Math.abs(x - (theirs?.[i] ?? NaN))),
    0,
  );
  if (!(difference <= TOLERANCE))
    throw new Error(`the embeddings differ by ${difference}, allowed are ${TOLERANCE}`);

  report.section(title, columns);
  for (const { peer, result } of outcomes) {
    const oursMs = outcomes[0]?.result?.timing.median;
    if (!result || !oursMs) continue;
    const { timing, isNoisy } = result;
    const perSentence = (ms: number) => duration(ms / texts.length);
    const cells = [
      peer,
      perSentence(timing.median),
      `${perSentence(timing.p25)} - ${perSentence(timing.p75)}`,
      String(timing.samples),
      `${(timing.median / oursMs).toFixed(2)}x`,
      isNoisy ? "noisy" : "",
    ];
    report.row(cells, { peer, timing });
  }
  console.log(`\nembeddings agree to ${difference.toExponential(1)}`);
}

// The command line of the example: see USAGE.

import { relative } from "node:path";
import { parseArgs } from "node:util";
import { createRuntime } from "wasm-attention";
import { SentenceEncoder } from "./encoder.mjs";
import { findReference, maxDifference, TOLERANCE } from "./reference.mjs";
import { createSearch } from "./search.mjs";
import { COLLECTION, QUESTIONS } from "./texts.mjs";
import { loadModel } from "./weights.mjs";

/** @import { Runtime } from "wasm-attention" */

const USAGE = `Finds the sentences closest in meaning to a question, by embeddings computed with wasm-attention.

  npm start                                   answer three questions from a small collection of sentences
  npm start -- "my own question"              answer yours
  npm start --silent -- --embed "some text"   print the embedding of a text: one JSON array of 512 numbers
  npm start -- --help                         print this
`;

const MATCHES = 3;

/** A wrong command line: exit code 2. */
class UsageError extends Error {}

/**
 * @param {string[]} args
 * @returns {{ help: boolean, embed: string | undefined, question: string | undefined }}
 */
function readArguments(args) {
  const options = /** @type {const} */ ({ embed: { type: "string" }, help: { type: "boolean", short: "h" } });
  const { values, positionals } = (() => {
    try {
      return parseArgs({ args, options, allowPositionals: true });
    } catch (error) {
      throw new UsageError(error instanceof Error ? error.message : String(error));
    }
  })();
  if (values.embed !== undefined && positionals.length > 0) {
    throw new UsageError(`--embed takes one text; quote it. Left over: ${positionals.join(" ")}`);
  }
  return {
    help: values.help ?? false,
    embed: values.embed,
    question: positionals.length > 0 ? positionals.join(" ") : undefined,
  };
}

/**
 * Reports the loading of the weights: a moving bar on a terminal, one line elsewhere.
 * @param {NodeJS.WriteStream} stream
 * @returns {(bytesRead: number, bytesTotal: number) => void}
 */
function createProgress(stream) {
  const megabytes = (/** @type {number} */ bytes) => (bytes / 1e6).toFixed(1);
  return (bytesRead, bytesTotal) => {
    const isDone = bytesRead === bytesTotal;
    if (stream.isTTY) {
      const done = Math.round((30 * bytesRead) / bytesTotal);
      const bar = "#".repeat(done) + ".".repeat(30 - done);
      stream.write(
        `\rLoading weights [${bar}] ${megabytes(bytesRead)} of ${megabytes(bytesTotal)} MB${isDone ? "\n" : ""}`,
      );
    } else if (isDone) {
      stream.write(`Loaded the weights, ${megabytes(bytesTotal)} MB\n`);
    }
  };
}

/**
 * Encodes the collection and ranks it for every question.
 * @param {Runtime} runtime
 * @param {SentenceEncoder} encoder
 * @param {readonly string[]} questions
 */
function answer(runtime, encoder, questions) {
  /** @type {number[]} */
  const times = [];
  const embeddings = COLLECTION.map((text) => {
    const start = performance.now();
    const embedding = encoder.encode(text);
    times.push(performance.now() - start);
    return embedding;
  });
  const search = createSearch(runtime, COLLECTION, embeddings);
  const answers = questions.map((question) => {
    const matches = search(encoder.encode(question), MATCHES).map(({ text, similarity, share }) => {
      return `  ${similarity.toFixed(3)}  ${(100 * share).toFixed(0).padStart(3)} %  ${text}\n`;
    });
    return `\n${question}\n${matches.join("")}`;
  });
  const [median = 0] = times.sort((a, b) => a - b).slice(times.length >> 1);
  const timing = `${COLLECTION.length} sentences encoded, median ${median.toFixed(2)} ms a sentence`;
  return `${answers.join("")}\n${timing}\n`;
}

/** @param {Runtime} runtime */
function describeRuntime(runtime) {
  const { backend, variant, threads, memoryBytes, reasons } = runtime.info();
  const memory = (memoryBytes / 2 ** 20).toFixed(0);
  const what = `ran as ${backend}, variant ${variant}, ${threads} thread${threads === 1 ? "" : "s"}, ${memory} MiB of memory`;
  return `${[what, ...reasons].join("\n  ")}\n`;
}

/** @param {SentenceEncoder} encoder */
async function compareWithReference(encoder) {
  const reference = await findReference();
  if (!reference) return "no reference embeddings to compare with\n";
  const { path, items } = reference;
  const difference = Math.max(
    ...items.map(({ text, embedding }) => maxDifference(encoder.encode(text), embedding)),
  );
  const agrees = difference <= TOLERANCE;
  if (!agrees) process.exitCode = 1;
  const verdict = agrees ? "agrees with" : "DIFFERS from";
  return (
    `${verdict} the original on ${items.length} reference texts: max difference ${difference.toExponential(1)}, ` +
    `allowed ${TOLERANCE.toExponential()} (${relative(process.cwd(), path)})\n`
  );
}

async function main() {
  const { help, embed, question } = readArguments(process.argv.slice(2));
  if (help) {
    process.stdout.write(USAGE);
    return;
  }
  const runtime = await createRuntime();
  const encoder = new SentenceEncoder(runtime, await loadModel(createProgress(process.stderr)));
  if (embed !== undefined) {
    process.stdout.write(`${JSON.stringify([...encoder.encode(embed)])}\n`);
    return;
  }
  process.stdout.write(answer(runtime, encoder, question === undefined ? QUESTIONS : [question]));
  process.stdout.write(describeRuntime(runtime));
  process.stdout.write(await compareWithReference(encoder));
}

// A reader that has seen enough, such as `head`, closes the pipe: no reason to complain.
process.stdout.on("error", (error) => {
  if (!("code" in error) || error.code !== "EPIPE") throw error;
});

try {
  await main();
} catch (error) {
  const message = error instanceof Error ? error.message : String(error);
  process.stderr.write(error instanceof UsageError ? `${message}\n\n${USAGE}` : `${message}\n`);
  process.exitCode = error instanceof UsageError ? 2 : 1;
}

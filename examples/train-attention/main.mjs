// The command line of the example: see USAGE.

import { parseArgs } from "node:util";
import { plot } from "./plot.mjs";
import { DEFAULTS, finalLoss, train } from "./train.mjs";

const USAGE = `Trains a layer of attention to say sequences backwards, once with the scale 1/√headDim and once without.

  npm run train                            both curves of the loss
  npm run train -- --head-dim 512          of other sizes: --head-dim, --length, --steps, --learning-rate, --seed
  npm run train -- --help                  print this
`;

/**
 * @param {string[]} args
 * @returns {Partial<typeof DEFAULTS> | undefined} undefined where help is asked for
 */
function readArguments(args) {
  const { values } = parseArgs({
    args,
    options: {
      "head-dim": { type: "string" },
      length: { type: "string" },
      steps: { type: "string" },
      "learning-rate": { type: "string" },
      seed: { type: "string" },
      help: { type: "boolean", short: "h" },
    },
  });
  if (values.help) return undefined;
  /** @type {Record<string, number>} */
  const settings = {};
  for (const [name, text] of Object.entries(values)) {
    const value = Number(text);
    if (!(value > 0) || (name !== "learning-rate" && !Number.isInteger(value))) {
      throw new RangeError(`--${name} takes a positive number, got ${text}`);
    }
    settings[name.replace(/-(\w)/g, (_, letter) => letter.toUpperCase())] = value;
  }
  return settings;
}

/**
 * @param {string} name
 * @param {number} scale
 * @param {Partial<typeof DEFAULTS>} options
 */
function report(name, scale, options) {
  const start = performance.now();
  const losses = train(scale, options);
  const seconds = ((performance.now() - start) / 1000).toFixed(1);
  const [first, last] = [/** @type {number} */ (losses[0]), finalLoss(losses)];
  const ratio = Number.isFinite(last) ? `, ${(last / first).toPrecision(2)} of its start` : "";
  console.log(`${name}: loss ${first.toFixed(3)} -> ${last.toPrecision(3)}${ratio}   (${seconds} s)`);
  return losses;
}

function main() {
  const options = readArguments(process.argv.slice(2));
  if (!options) {
    process.stdout.write(USAGE);
    return;
  }
  const { headDim, length, steps, vocabulary } = { ...DEFAULTS, ...options };
  console.log(
    `Sequences of ${length} out of ${vocabulary} tokens, to be said backwards; headDim ${headDim}, ${steps} steps.\n`,
  );
  const scaled = report(`* scale 1/√${headDim}`, 1 / Math.sqrt(headDim), options);
  const unscaled = report("o scale 1", 1, options);
  const curves = [
    { mark: "o", values: unscaled },
    { mark: "*", values: scaled },
  ];
  console.log(`\nloss\n${plot(curves, 1e-3)}\n`);
  console.log(
    `Unscaled scores of unit-variance queries and keys have variance ${headDim}: the softmax begins saturated, its\n` +
      "gradients p (1 - p) are near 0, and most of what should move the queries and keys never reaches them.",
  );
}

try {
  main();
} catch (error) {
  console.error(error instanceof Error ? error.message : error);
  process.exitCode = 2;
}

import { execFile, spawn } from "node:child_process";
import { once } from "node:events";
import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { beforeAll, describe, expect, it } from "vitest";
import { SentenceEncoder } from "../examples/sentence-search/encoder.mjs";
import { maxDifference, type ReferenceItem, TOLERANCE } from "../examples/sentence-search/reference.mjs";
import { createSearch } from "../examples/sentence-search/search.mjs";
import { COLLECTION, QUESTIONS } from "../examples/sentence-search/texts.mjs";
import { createTokenizer } from "../examples/sentence-search/tokenizer.mjs";
import { loadModel, type Model } from "../examples/sentence-search/weights.mjs";
import { describeVariants } from "./support.ts";

const fixture = new URL("fixtures/sentence-embeddings.json", import.meta.url);
const reference: ReferenceItem[] = JSON.parse(readFileSync(fixture, "utf8")).items;

let model: Model;
const progress: number[] = [];
beforeAll(async () => {
  model = await loadModel((bytesRead, bytesTotal) => progress.push(bytesRead / bytesTotal));
});

describeVariants("sentence encoder", (runtime) => {
  let encoder: SentenceEncoder;
  beforeAll(() => {
    encoder = new SentenceEncoder(runtime, model);
  });

  it.each(reference)("agrees with the original on $text", ({ text, embedding }) => {
    expect(maxDifference(encoder.encode(text), embedding)).toBeLessThanOrEqual(TOLERANCE);
  });

  it("gives the same bits every time, whatever was encoded in between", () => {
    const texts = reference.map(({ text }) => text);
    const once = texts.map((text) => encoder.encode(text));
    const again = texts
      .toReversed()
      .map((text) => encoder.encode(text))
      .toReversed();
    expect(again).toEqual(once);
  });

  it("gives an empty text the embedding it has in a batch of the original", () => {
    // Of no tokens the mean is 0, so what remains is tanh(b), scaled to length 1.
    const embedding = encoder.encode("");
    const first = [0.0023546612355858088, -0.034875255078077316, 0.013102022930979729, -0.021176055073738098];
    expect(maxDifference(embedding.slice(0, 4), first)).toBeLessThanOrEqual(TOLERANCE);
    expect(embedding.reduce((sum, x) => sum + x * x, 0)).toBeCloseTo(1, 6);
  });

  it("reads 128 tokens and no more", () => {
    const words = (count: number, then: string): Float32Array => encoder.encode("word ".repeat(count) + then);
    expect(words(128, "cat")).toEqual(words(128, "dog"));
    expect(words(127, "cat")).not.toEqual(words(127, "dog"));
  });

  it("keeps the weights in the runtime's memory and leaves nothing behind", () => {
    for (const { text } of reference) encoder.encode(text);
    const { memoryBytes } = runtime.info();
    for (const { text } of reference) encoder.encode(text);
    expect(runtime.info().memoryBytes).toBe(memoryBytes);
    expect(memoryBytes).toBeGreaterThan(19e6);
  });

  it("finds the sentence that answers the question", () => {
    const search = createSearch(
      runtime,
      COLLECTION,
      COLLECTION.map((text) => encoder.encode(text)),
    );
    const best = QUESTIONS.map((question) => search(encoder.encode(question), 3));
    expect(best.map(([match]) => match?.text)).toEqual([
      "To reset your password, follow the link in the e-mail we send you.",
      "The Berlin Wall fell in November 1989.",
      "Photosynthesis turns sunlight, water and carbon dioxide into sugar and oxygen.",
    ]);
    const all = search(encoder.encode(QUESTIONS[0] as string), COLLECTION.length);
    expect(all.reduce((sum, { share }) => sum + share, 0)).toBeCloseTo(1, 5);
    expect(all.map(({ similarity }) => similarity)).toEqual(
      all.map(({ similarity }) => similarity).sort((a, b) => b - a),
    );
    const [itself] = search(encoder.encode(COLLECTION[7] as string), 1);
    expect(itself?.text).toBe(COLLECTION[7]);
    expect(itself?.similarity).toBeCloseTo(1, 5);
  });
});

describe("weights", () => {
  it("report their progress to the end", () => {
    expect(progress.at(-1)).toBe(1);
    expect(progress).toEqual([...progress].sort((a, b) => a - b));
  });
});

describe("tokenizer", () => {
  let tokenize: (text: string) => number[];
  beforeAll(() => {
    tokenize = createTokenizer(model.vocabulary);
  });
  const pieces = (text: string): (string | undefined)[] =>
    tokenize(text).map((id) => model.vocabulary[id]?.[0]);

  it("splits into the likeliest pieces", () => {
    expect(pieces("How do I reset my password?")).toEqual([
      "▁How",
      "▁do",
      "▁I",
      "▁re",
      "set",
      "▁my",
      "▁password",
      "?",
    ]);
    expect(tokenize("The quick brown fox jumps over the lazy dog.")).toEqual([
      34, 2280, 3744, 1394, 152, 2009, 7, 132, 9, 6266, 959, 6,
    ]);
  });

  // Tokens of the original for what is easily got wrong.
  it.each([
    ["no text", "", []],
    ["a space, marked like the beginning", " ", [30, 30]],
    ["every space counted", "  a", [30, 30, 11]],
    ["a mark in the text", "▁", [30, 30]],
    ["a tab, which is no space", "\t", [30, 0]],
    ["a run of unknown symbols as one", "日本語", [30, 0]],
    ["an astral symbol as one, between known ones", "🙂🙂 🙂", [30, 0, 30, 0]],
    ["half of a surrogate pair", "\ud800x", [30, 0, 152]],
    ["compatibility forms, by NFKC", "ﬁ ① ½ Å", [1480, 207, 207, 7935, 288, 30, 0]],
    ["an accent that joins its letter", "e\u0301", [30, 1133]],
    ["an invisible symbol", "a\u200bb", [11, 0, 151]],
    ["a piece that the vocabulary holds three times", "”57 x”5y", [30, 236, 4687, 649, 4464, 48]],
    [
      "pieces without a score, and one above 0",
      ":00 :30 10:30 :) http://x",
      [30, 5920, 30, 4177, 320, 4177, 658, 290, 255, 152],
    ],
    ["scores of 0 on both sides", "a::b:", [11, 57, 57, 151, 57]],
    [
      "names of JavaScript's own",
      "constructor __proto__ toString",
      [5576, 121, 30, 6500, 1170, 266, 6500, 10, 6269],
    ],
  ])("takes %s", (_, text, tokens) => {
    expect(tokenize(text)).toEqual(tokens);
  });
});

describe("command line", () => {
  const main = fileURLToPath(new URL("../examples/sentence-search/main.mjs", import.meta.url));
  const run = (...args: string[]): Promise<{ code: number; stdout: string; stderr: string }> =>
    new Promise((resolve) => {
      const child = execFile(process.execPath, [main, ...args], (_, stdout, stderr) => {
        resolve({ code: child.exitCode ?? -1, stdout, stderr });
      });
    });

  it("--embed prints the numbers of the embedding and nothing else", async () => {
    const { text, embedding } = reference[0] as ReferenceItem;
    const { code, stdout, stderr } = await run("--embed", text);
    expect(maxDifference(JSON.parse(stdout), embedding)).toBeLessThanOrEqual(TOLERANCE);
    expect(stdout).toMatch(/^\[[^\n]*\]\n$/);
    expect(stderr).toMatch(/^Loaded the weights, .*MB\n$/);
    expect(code).toBe(0);
  });

  it("answers a question, and says what ran and how well it agrees", async () => {
    const { code, stdout } = await run("Can", "I get a refund?");
    expect(stdout).toMatch(/^\nCan I get a refund\?\n {2}0\.\d{3} +\d+ % {2}You can return any product/);
    expect(stdout).toMatch(/median \d+\.\d\d ms a sentence/);
    expect(stdout).toMatch(/variant (simd|relaxed), 1 thread/);
    expect(stdout).toMatch(/agrees with the original on 25 reference texts/);
    expect(code).toBe(0);
  });

  it("ends quietly when nobody reads on", async () => {
    const child = spawn(process.execPath, [main, "--embed", "hello"], { stdio: ["ignore", "pipe", "pipe"] });
    child.stdout.destroy();
    const stderr: string[] = [];
    child.stderr.setEncoding("utf8").on("data", (text) => stderr.push(text));
    const [code] = await once(child, "close");
    expect(stderr.join("")).toMatch(/^Loaded the weights, .*MB\n$/);
    expect(code).toBe(0);
  });

  it("--help prints the usage", async () => {
    const { code, stdout, stderr } = await run("--help");
    expect(stdout).toContain("npm start --silent -- --embed");
    expect([code, stderr]).toEqual([0, ""]);
  });

  it.each([
    ["an unknown flag", ["--top", "3"], "--top"],
    ["a text that is missing", ["--embed"], "--embed"],
    ["more than one text", ["--embed", "one", "two"], "Left over: two"],
  ])("refuses %s with exit code 2", async (_, args, message) => {
    const { code, stdout, stderr } = await run(...args);
    expect(stderr).toContain(message);
    expect([code, stdout]).toEqual([2, ""]);
  });
});

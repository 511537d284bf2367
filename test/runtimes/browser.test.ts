import { readdirSync, readFileSync } from "node:fs";
import { join } from "node:path";
import { type Browser, chromium as driver } from "playwright-core";
import { build, createLogger, createServer, preview } from "vite";
import { afterAll, beforeAll, expect, test } from "vitest";
import { unavailable } from "../unavailable.ts";
import { forbiddenSyntax } from "./bundle-rules.ts";
import { chromium, chromiumFlags } from "./engines.ts";
import { type Answer, attend, expectRightAnswer } from "./known-answer.ts";
import { type Consumer, installPacked } from "./pack.ts";

let consumer: Consumer;
let browser: Browser | undefined;
beforeAll(() => {
  consumer = installPacked();
  consumer.write("index.html", page);
  consumer.write("main.js", `${attend}globalThis.answer = attend();`);
}, 60_000);
afterAll(async () => {
  await browser?.close();
  consumer?.remove();
});

const page = `<!doctype html>
<html>
  <head><link rel="icon" href="data:," /></head>
  <body><script type="module" src="/main.js"></script></body>
</html>
`;

test("an unconfigured Vite build is silent, self-contained, and has no file but the page and its script", async () => {
  const warnings: string[] = [];
  await build({ root: consumer.folder, logLevel: "warn", customLogger: recordingLogger(warnings) });
  expect(warnings).toEqual([]);
  const assets = readdirSync(join(consumer.folder, "dist/assets"));
  expect(readdirSync(join(consumer.folder, "dist")).sort()).toEqual(["assets", "index.html"]);
  expect(assets).toEqual([expect.stringMatching(/^index-.*\.js$/)]);
  expect(
    forbiddenSyntax(readFileSync(join(consumer.folder, "dist/assets", assets[0] ?? ""), "utf8")),
  ).toEqual([]);
}, 60_000);

if (chromium === undefined) {
  unavailable("Vite in Chromium: no Chromium found; `apt-get install chromium`, or set CHROMIUM_PATH");
} else {
  test("the Vite build computes a right attention in Chromium", async () => {
    const server = await preview({
      root: consumer.folder,
      logLevel: "silent",
      preview: { port: 0, host: "127.0.0.1" },
    });
    try {
      const requests = await expectRightPage(server.resolvedUrls?.local[0], "Vite build");
      expect(requests).toEqual(["/", expect.stringMatching(/^\/assets\/index-.*\.js$/)]);
    } finally {
      await server.close();
    }
  }, 60_000);

  test("the Vite development server computes a right attention in Chromium", async () => {
    const warnings: string[] = [];
    const server = await createServer({
      root: consumer.folder,
      customLogger: recordingLogger(warnings),
      server: { port: 0, host: "127.0.0.1" },
    });
    try {
      await server.listen();
      const requests = await expectRightPage(server.resolvedUrls?.local[0], "Vite development server");
      expect(requests.filter((path) => path.includes(".wasm"))).toEqual([]);
      expect(warnings).toEqual([]);
    } finally {
      await server.close();
    }
  }, 60_000);
}

function recordingLogger(warnings: string[]) {
  const logger = createLogger("silent");
  const record = (message: string) => void warnings.push(message);
  return Object.assign(logger, { warn: record, warnOnce: record, error: record });
}

/** Opens the page, asserts its answer and a clean console, and returns the paths it requested. */
async function expectRightPage(url: string | undefined, where: string): Promise<string[]> {
  if (url === undefined) throw new Error("the server has no local address");
  browser ??= await driver.launch({ executablePath: chromium as string, args: chromiumFlags });
  const requests: string[] = [];
  const complaints: string[] = [];
  const tab = await browser.newPage();
  tab.on("request", (request) => {
    if (request.url().startsWith("http")) requests.push(new URL(request.url()).pathname);
  });
  tab.on("pageerror", (error) => complaints.push(error.message));
  tab.on("console", (message) => {
    if (["error", "warning"].includes(message.type())) complaints.push(message.text());
  });
  await tab.goto(url);
  const answer = await tab
    .waitForFunction(() => (globalThis as { answer?: Answer }).answer, undefined, { timeout: 20_000 })
    .then((handle) => handle.jsonValue())
    .catch((error: Error) => complaints.push(error.message));
  expect(complaints).toEqual([]);
  expectRightAnswer(answer as Answer, `${where} in Chromium ${browser.version()}`);
  await tab.close();
  return requests;
}

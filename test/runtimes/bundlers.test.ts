import { execFileSync } from "node:child_process";
import { mkdtempSync, readFileSync, rmSync } from "node:fs";
import { tmpdir } from "node:os";
import { join } from "node:path";
import { build, type Format, type Platform } from "esbuild";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { forbiddenSyntax } from "./bundle-rules.ts";
import { type Answer, attend, expectRightAnswer } from "./known-answer.ts";
import { type Consumer, installPacked } from "./pack.ts";

let consumer: Consumer;
let emptyFolder: string;
beforeAll(() => {
  consumer = installPacked();
  emptyFolder = mkdtempSync(join(tmpdir(), "wasm-attention-bundle-"));
}, 60_000);
afterAll(() => {
  consumer?.remove();
  rmSync(emptyFolder, { recursive: true, force: true });
});

const targets: [Format, Platform, string][] = [
  ["esm", "browser", "mjs"],
  ["iife", "browser", "cjs"],
  ["cjs", "browser", "cjs"],
  ["esm", "node", "mjs"],
  ["cjs", "node", "cjs"],
];

test.each(targets)(
  "esbuild, %s for %s: no warning, self-contained, right attention in Node",
  async (format, platform, extension) => {
    const entry = consumer.write("main.js", `${attend}console.log(JSON.stringify(attend()));`);
    const outfile = join(emptyFolder, `${format}-${platform}.${extension}`);
    const { warnings } = await build({
      entryPoints: [entry],
      bundle: true,
      format,
      platform,
      outfile,
      logLevel: "silent",
    });
    expect(warnings).toEqual([]);
    expect(forbiddenSyntax(readFileSync(outfile, "utf8"))).toEqual([]);
    const out = execFileSync(process.execPath, [outfile], { cwd: emptyFolder, encoding: "utf8" });
    expectRightAnswer(
      JSON.parse(out) as Answer,
      `esbuild ${format} for ${platform} in Node ${process.versions.node}`,
    );
  },
);

test("esbuild drops the kernels from a program that imports the package and uses nothing", async () => {
  const entry = consumer.write("unused.js", `import { softmax } from "wasm-attention";\nconsole.log(1);`);
  const { outputFiles } = await build({
    entryPoints: [entry],
    bundle: true,
    write: false,
    logLevel: "silent",
  });
  expect(outputFiles[0]?.text.length).toBeLessThan(1000);
});

describe("the check of bundles sees what it forbids", () => {
  test.each([
    ["import()", "async () => import('x')"],
    ["import.meta", "const here = import.meta.url"],
    ["top-level await", "await 1"],
    ["top-level await", "for await (const x of []) {}"],
    ['Node built-in "node:fs"', "import 'node:fs'"],
    ['Node built-in "fs"', "(() => require('fs'))()"],
    ['Node built-in "path"', "export * from 'path'"],
    ['module "left-pad"', "export { default } from 'left-pad'"],
  ])("%s in: %s", (finding, code) => {
    expect(forbiddenSyntax(code)).toEqual([expect.stringContaining(finding)]);
  });

  test("and nothing in strings, comments, functions that await, or local exports", () => {
    const code =
      "/* import('x') */ const s = 'import.meta node:fs'; export async function f() { await s; } export { s };";
    expect(forbiddenSyntax(code)).toEqual([]);
  });
});

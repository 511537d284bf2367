import { readFileSync } from "node:fs";
import { basename, join } from "node:path";
import vm from "node:vm";
import { build, type Plugin } from "esbuild";
import { Miniflare } from "miniflare";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Answer, attend, expectRightAnswer } from "./known-answer.ts";
import { type Consumer, installPacked } from "./pack.ts";

let consumer: Consumer;
beforeAll(() => {
  consumer = installPacked();
}, 60_000);
afterAll(() => consumer?.remove());

/** Says why bytes cannot be compiled here, or that they could. */
const compileBytes = `
function compileBytes() {
  try {
    new WebAssembly.Module(new Uint8Array([0, 97, 115, 109, 1, 0, 0, 0]));
    return "bytes were compiled";
  } catch (error) {
    return String(error);
  }
}
`;

interface EdgeAnswer extends Answer {
  compiling: string;
}

/**
 * As the platforms' bundlers do: leaves .wasm imports in the bundle under flat names and hands the files
 * over as modules, or takes them from a global where a namespace is given. `modules` receives the files
 * by the specifier that named them.
 */
function wasmModules(modules: Map<string, string>, namespace?: string): Plugin {
  return {
    name: "wasm-modules",
    setup({ onResolve, onLoad }) {
      onResolve({ filter: /\.wasm(\?module)?$/ }, ({ path, resolveDir }) => {
        const file = join(resolveDir, path.replace("?module", ""));
        modules.set(path, file);
        const name = basename(file);
        return namespace === undefined ? { path: `./${name}`, external: true } : { path: name, namespace };
      });
      onLoad({ filter: /.*/, namespace: "given" }, ({ path }) => ({
        contents: `export default globalThis.givenModules[${JSON.stringify(path)}];`,
      }));
    },
  };
}

async function bundle(conditions: string[], program: string, plugin: Plugin, format: "esm" | "iife") {
  const { outputFiles, metafile, warnings } = await build({
    stdin: { contents: program, resolveDir: consumer.folder },
    bundle: true,
    write: false,
    metafile: true,
    logLevel: "silent",
    conditions,
    plugins: [plugin],
    format,
  });
  expect(warnings).toEqual([]);
  const inputs = Object.keys(metafile.inputs).map((path) => basename(path));
  return { text: outputFiles[0]?.text ?? "", inputs };
}

test("workerd, where bytes may not be compiled: right attention from the imported modules", async () => {
  const program = `${attend}${compileBytes}
    export default {
      fetch: () => Response.json({ ...attend(), compiling: compileBytes() }),
    };`;
  const modules = new Map<string, string>();
  const { text, inputs } = await bundle(
    ["workerd", "worker", "browser"],
    program,
    wasmModules(modules),
    "esm",
  );
  expect(inputs).not.toContain("wasm-inline.js");
  expect([...modules.keys()].sort()).toEqual(["./wasm/relaxed.wasm", "./wasm/simd.wasm"]);
  const worker = new Miniflare({
    compatibilityDate: "2026-04-01",
    modules: [
      { type: "ESModule", path: "worker.js", contents: text },
      ...[...modules.values()].map((file) => ({
        type: "CompiledWasm" as const,
        path: basename(file),
        contents: readFileSync(file),
      })),
    ],
  });
  try {
    const response = await worker.dispatchFetch("http://localhost/");
    const body = await response.text();
    expect(response.status, body).toBe(200);
    const answer = JSON.parse(body) as EdgeAnswer;
    expect(answer.compiling).toMatch(/Wasm code generation disallowed/);
    expectRightAnswer(answer, "workerd");
  } finally {
    await worker.dispose();
  }
}, 60_000);

test("edge-light, in a realm where bytes may not be compiled: right attention from the imported modules", async () => {
  const program = `${attend}${compileBytes}
    globalThis.answer = JSON.stringify({ ...attend(), compiling: compileBytes() });`;
  const modules = new Map<string, string>();
  const { text, inputs } = await bundle(["edge-light"], program, wasmModules(modules, "given"), "iife");
  expect(inputs).not.toContain("wasm-inline.js");
  // Next.js gives the compiled module for this form of import, and an instance for a bare one.
  expect([...modules.keys()].sort()).toEqual(["./wasm/relaxed.wasm?module", "./wasm/simd.wasm?module"]);
  // Its sandbox compiles them outside, so inside they are of another realm.
  const givenModules: Record<string, WebAssembly.Module> = {};
  for (const file of modules.values()) {
    givenModules[basename(file)] = await WebAssembly.compile(readFileSync(file));
  }
  const realm = { givenModules, TextDecoder, answer: "" };
  vm.runInContext(text, vm.createContext(realm, { codeGeneration: { strings: false, wasm: false } }));
  const answer = JSON.parse(realm.answer) as EdgeAnswer;
  expect(answer.compiling).toMatch(/Wasm code generation disallowed/);
  expectRightAnswer(answer, "edge-light realm");
});

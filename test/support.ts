import { existsSync, readFileSync } from "node:fs";
import { describe, expect, it } from "vitest";
import { type AttentionOptions, createRuntimeSync, type Runtime } from "../src/index.ts";
import { attention, type RefAttentionOptions } from "./reference/attention.ts";
import { type Calibrated, calibrate, digest, expectClose } from "./reference/compare.ts";
import type { TestTensor } from "./reference/random.ts";
import type { RefTensor } from "./reference/rounding.ts";
import { unavailable } from "./unavailable.ts";

export * from "./reference/compare.ts";
export * from "./reference/random.ts";
export { unavailable } from "./unavailable.ts";

/** The binaries that one source is compiled to; every test of an operation runs on each. */
export const variants = ["debug", "simd", "relaxed"] as const;
export type VariantName = (typeof variants)[number];

/** The bytes of a variant, as `npm run build` left them. */
export function wasmBytes(variant: VariantName): Uint8Array<ArrayBuffer> {
  const path = new URL(`../build/${variant}.wasm`, import.meta.url);
  if (!existsSync(path)) throw new Error(`build/${variant}.wasm is not there: run "npm run build" first`);
  return new Uint8Array(readFileSync(path));
}

const modules = new Map<VariantName, WebAssembly.Module>();

function compiled(variant: VariantName): WebAssembly.Module {
  const module = modules.get(variant) ?? new WebAssembly.Module(wasmBytes(variant));
  modules.set(variant, module);
  return module;
}

/** A runtime of a variant with a memory of its own. */
export const freshRuntime = (variant: VariantName): Runtime =>
  createRuntimeSync({ module: compiled(variant) });

const sizeNames = [
  "KC",
  "MC",
  "NC",
  "DIRECT_SIZE",
  "FEW_ROWS",
  "FEW_ROWS_SUMS",
  "BLOCK_Q",
  "BLOCK_K",
  "FEW_QUERIES",
  "BACKWARD_K",
] as const;

/** The sizes at which a variant changes its way (assembly/config.ts), which its tests straddle. */
export function blockSizes(variant: VariantName): Record<(typeof sizeNames)[number], number> {
  const { exports } = new WebAssembly.Instance(compiled(variant), { env: { abort() {} } });
  const size = (name: string): number => {
    const constant = exports[name];
    if (!(constant instanceof WebAssembly.Global)) throw new Error(`${variant}.wasm exports no ${name}`);
    return constant.value as number;
  };
  return Object.fromEntries(sizeNames.map((name) => [name, size(name)])) as ReturnType<typeof blockSizes>;
}

/**
 * A runtime whose free memory holds `rubbish`: a kernel that reads what it has not written, or further than it may,
 * shows it. (A runtime that has computed before would use its old, well filled, buffers again.)
 */
export function littered(variant: VariantName, rubbish: number): Runtime {
  const runtime = freshRuntime(variant);
  const litter = runtime.tensor([2 ** 20]);
  litter.data.fill(rubbish);
  litter.dispose();
  return runtime;
}

export const zeros = (...shape: number[]): TestTensor => ({
  data: new Float32Array(shape.reduce((product, n) => product * n, 1)),
  shape,
});

/** What is wrong, the call, and what the message must say: function, argument, rule and both values. */
export type WrongCall = [name: string, call: () => unknown, type: typeof Error, message: RegExp];

/** Every call throws what it should, and the next one that is right succeeds. */
export function itRefuses(runtime: Runtime, calls: readonly WrongCall[]): void {
  it.each(calls)("%s", (_, call, type, message) => {
    expect(call).toThrow(type);
    expect(call).toThrow(message);
    expect(runtime.softmax(zeros(2)).data).toEqual(Float32Array.of(0.5, 0.5));
  });
}

/** Runs one body of tests on each variant, or names the variant that this engine cannot run. */
export function describeVariants(name: string, body: (runtime: Runtime, variant: VariantName) => void): void {
  for (const variant of variants) {
    describe(`${name} [${variant}]`, () => {
      if (WebAssembly.validate(wasmBytes(variant))) body(freshRuntime(variant), variant);
      else unavailable(`Node ${process.version} does not validate ${variant}.wasm`);
    });
  }
}

/**
 * What the reference makes of an attention problem: the output and the log-sum-exp, and their tolerances. Plain
 * float32 scales the score or the query, and which one is closer depends on where the numbers happen to
 * lie between powers of two; so the draws do both.
 */
export function solveAttention(
  label: string,
  operands: readonly [TestTensor, TestTensor, TestTensor],
  options: AttentionOptions,
): Calibrated {
  const { attnMask, ...others } = forReference(options);
  const bias = attnMask?.data instanceof Float32Array ? [attnMask as TestTensor] : [];
  return calibrate(
    label,
    [...operands, ...bias],
    ([q, k, v, mask = attnMask], round, draw) => {
      const all = { ...others, attnMask: mask, scaleQuery: draw % 2 === 1 };
      const { out, lse } = attention(q as TestTensor, k as TestTensor, v as TestTensor, all, round);
      return [out, lse];
    },
    { draws: 24 },
  );
}

/** The options of the library as the reference takes them: a mask has a shape, not dims. */
export function forReference(options: AttentionOptions): RefAttentionOptions {
  if (options.attnMask && !("shape" in options.attnMask)) throw new TypeError("attnMask without shape");
  return options as RefAttentionOptions;
}

/**
 * Attention held to the reference: every element of the output and of the log-sum-exp at the
 * self-calibrated tolerance, and rows without a key exactly 0 and -Infinity.
 */
export function expectAttention(
  runtime: Runtime,
  q: TestTensor,
  k: TestTensor,
  v: TestTensor,
  options: AttentionOptions = {},
): void {
  const label = `q [${q.shape}] k [${k.shape}] v [${v.shape}] ${describeOptions(options)}`;
  const { want, tolerances } = solveAttention(label, [q, k, v], options);
  const got = runtime.scaledDotProductAttention(q, k, v, { ...options, returnLse: true });
  const [out, lse] = want as [RefTensor, RefTensor];
  expectClose(got.out, out, tolerances[0] as number, `out of ${label}`);
  expectClose(got.lse, lse, tolerances[1] as number, `lse of ${label}`);
  expectDeadRows(got.out, lse, options, label);
}

/** Where the log-sum-exp is -Infinity the row of the output is exactly 0. */
export function expectDeadRows(
  out: RefTensor,
  lse: RefTensor,
  options: AttentionOptions,
  label: string,
): void {
  const width = out.shape.at(-1) as number;
  const length = lse.shape.at(-1) as number;
  const heads = lse.shape.at(-2) ?? 1;
  for (let row = 0; row < lse.data.length; row++) {
    if (lse.data[row] !== -Infinity) continue;
    const [bh, i] = [Math.floor(row / length), row % length];
    const blhd = (Math.floor(bh / heads) * length + i) * heads + (bh % heads);
    const first = (options.layout === "blhd" ? blhd : row) * width;
    for (let c = 0; c < width; c++) expect(out.data[first + c], `dead row ${row} of ${label}`).toBe(0);
  }
}

/** Options in one line: masks by type, shape and a digest of their values, everything else as it is. */
export function describeOptions(options: AttentionOptions): string {
  return JSON.stringify(options, (key, value) => {
    if (key === "attnMask" && value) {
      const { data, shape } = value;
      return `${data.constructor.name} [${shape}] ${digest(ArrayBuffer.isView(data) ? data : Uint8Array.from(data))}`;
    }
    return ArrayBuffer.isView(value) ? Array.from(value as Int32Array) : value;
  });
}

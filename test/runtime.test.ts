import { describe, expect, it } from "vitest";
import * as wasm from "../src/index.ts";
import { createRuntime, createRuntimeSync } from "../src/index.ts";
import { itRefuses, type WrongCall, wasmBytes } from "./support.ts";

const cases: WrongCall[] = [
  [
    "memory limit below an empty runtime",
    () => createRuntimeSync({ maxMemoryBytes: 1000 }),
    RangeError,
    /maxMemoryBytes must be at least the 65536 bytes of an empty runtime, got 1000/,
  ],
  [
    "variant",
    () => createRuntimeSync({ variant: "fast" as never }),
    TypeError,
    /variant must be "auto", "simd" or "relaxed", got "fast"/,
  ],
  ["runtime option", () => createRuntimeSync({ threads: 2 } as never), TypeError, /unknown option "threads"/],
  [
    "contradiction",
    () => createRuntimeSync({ variant: "relaxed", deterministic: true }),
    TypeError,
    /deterministic: true is the "simd" variant/,
  ],
  [
    "module type",
    () => createRuntimeSync({ module: "x.wasm" as never }),
    TypeError,
    /module must be a WebAssembly\.Module, a Uint8Array or an ArrayBuffer, got "x\.wasm"/,
  ],
  [
    "memory limit",
    () => createRuntimeSync({ maxMemoryBytes: 0 }),
    RangeError,
    /maxMemoryBytes must be a positive number, got 0/,
  ],
];

describe("runtimes", () => {
  itRefuses(createRuntimeSync(), cases);

  it("rejects a module that is not a build of this package", async () => {
    const empty = Uint8Array.of(0, 97, 115, 109, 1, 0, 0, 0);
    expect(() => createRuntimeSync({ module: empty })).toThrow(
      /module must be a build of this version of wasm-attention, whose ABI is 1; got one with none/,
    );
    await expect(createRuntime({ module: empty })).rejects.toThrow(/got one with none/);
    await expect(createRuntime({ module: Uint8Array.of(1, 2, 3) })).rejects.toThrow(/refused to compile/);
  });

  it("info says what runs and why nothing better", async () => {
    const deterministic = (await createRuntime({ deterministic: true })).info();
    expect(deterministic).toMatchObject({ backend: "wasm", variant: "simd", threads: 1 });
    expect(deterministic.reasons).toEqual(["relaxed SIMD is not used: deterministic results were asked for"]);
    const auto = createRuntimeSync().info();
    expect(auto.variant === "relaxed" ? auto.reasons.length : auto.reasons[0]).toEqual(
      auto.variant === "relaxed" ? 0 : "relaxed SIMD is not used: this engine does not have it",
    );
    expect(createRuntimeSync({ module: wasmBytes("simd") }).info().variant).toBe("simd");
  });

  it("takes a compiled module, and instantiates the same source many times over", async () => {
    const module = await WebAssembly.compile(wasmBytes("simd"));
    const runtimes = await Promise.all([
      createRuntime({ module }),
      createRuntime({ module }),
      createRuntime({ module }),
    ]);
    for (const each of runtimes) expect(each.exp({ data: Float32Array.of(0), shape: [1] }).data[0]).toBe(1);
  });

  it("free functions are the methods of one default runtime", () => {
    const t = wasm.tensor([2], Float32Array.of(1, 2));
    expect(Array.from(wasm.scale(t, 3).data)).toEqual([3, 6]);
    expect(wasm.info().memoryBytes).toBeGreaterThan(0);
    const { softmax } = createRuntimeSync();
    expect(softmax({ data: Float32Array.of(1), shape: [1] }).data[0]).toBe(1);
  });
});

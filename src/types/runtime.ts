// The options of a runtime, and what it says of itself.

/** The binaries one source is compiled to. */
export type Variant = "simd" | "relaxed";

/**
 * WebAssembly.Module where the environment declares it: TypeScript does in its libraries "dom" and "webworker" alone, and
 * these types are for projects without them too.
 */
export type WasmModule = typeof globalThis extends { WebAssembly: { Module: { prototype: infer Module } } }
  ? Module
  : object;

/** Options of {@link createRuntime} and {@link createRuntimeSync}. */
export interface RuntimeOptions {
  /** "auto" (default) takes relaxed SIMD where the engine has it. Asking for one by name fails where it cannot run. */
  readonly variant?: Variant | "auto" | undefined;
  /** The same bits on every engine: picks the simd variant. Default false. */
  readonly deterministic?: boolean | undefined;
  /** A compiled module or its bytes, in place of those shipped inside. */
  readonly module?: WasmModule | Uint8Array | ArrayBuffer | undefined;
  /** Upper bound of the Wasm memory in bytes. Default, and most: 4 GiB less one page of 64 KiB. */
  readonly maxMemoryBytes?: number | undefined;
}

/** What runs, and why nothing better. */
export interface RuntimeInfo {
  /** What computes. */
  backend: "wasm";
  /** The binary that runs. */
  variant: Variant;
  /** Threads that share one call. */
  threads: number;
  /** Bytes of Wasm memory held now. */
  memoryBytes: number;
  /** One sentence for each better choice that was not taken. */
  reasons: string[];
}

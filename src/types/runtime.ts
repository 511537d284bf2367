// The options of a runtime, and what it says of itself.

/** The binaries one source is compiled to. */
export type Variant = "simd" | "relaxed";

/** Options of {@link createRuntime} and {@link createRuntimeSync}. */
export interface RuntimeOptions {
  /** "auto" (default) takes relaxed SIMD where the engine has it. Asking for one by name fails where it cannot run. */
  readonly variant?: Variant | "auto" | undefined;
  /** The same bits on every engine: picks the simd variant. Default false. */
  readonly deterministic?: boolean | undefined;
  /** A compiled module or its bytes, in place of those shipped inside. */
  readonly module?: WebAssembly.Module | Uint8Array | ArrayBuffer | undefined;
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

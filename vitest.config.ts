import { defineConfig } from "vitest/config";

/** The smallest module with a relaxed instruction: i8x16.relaxed_swizzle of two splats. */
const relaxedProbe = Uint8Array.of(
  ...[0, 97, 115, 109, 1, 0, 0, 0], // magic, version
  ...[1, 5, 1, 96, 0, 1, 123], // type 0: () -> v128
  ...[3, 2, 1, 0], // function 0 is of type 0
  ...[10, 15, 1, 13, 0, 65, 1, 253, 15, 65, 2, 253, 15, 253, 128, 2, 11],
);

// Node 20 has relaxed SIMD behind a flag, later versions have it without and do not know the flag.
const execArgv = WebAssembly.validate(relaxedProbe) ? [] : ["--experimental-wasm-relaxed-simd"];

export default defineConfig({
  test: {
    include: ["test/**/*.test.ts"],
    pool: "forks",
    execArgv,
    testTimeout: 60_000,
    hookTimeout: 60_000,
    reporters: ["default"],
  },
});

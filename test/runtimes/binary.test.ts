import { readFileSync } from "node:fs";
import { join } from "node:path";
import { describe, expect, test } from "vitest";
import { inspectWasm, maxWasmBytes } from "../../scripts/wasm-reader.mjs";
import { repository } from "./pack.ts";

describe.each(["simd", "relaxed"])("dist/wasm/%s.wasm", (variant) => {
  const bytes = readFileSync(join(repository, "dist/wasm", `${variant}.wasm`));
  const { imports, relaxedOpcodes } = inspectWasm(bytes);

  test(`is at most ${maxWasmBytes} bytes`, () => {
    expect(bytes.length).toBeLessThanOrEqual(maxWasmBytes);
  });

  test("imports nothing", () => {
    expect(imports).toEqual([]);
  });

  test(variant === "simd" ? "holds no relaxed opcode" : "holds relaxed opcodes", () => {
    if (variant === "simd") expect(relaxedOpcodes).toEqual([]);
    else expect(relaxedOpcodes).toContain("f32x4.relaxed_madd");
  });
});

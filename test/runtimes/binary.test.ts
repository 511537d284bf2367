import { readFileSync } from "node:fs";
import { join } from "node:path";
import { brotliCompressSync, gzipSync } from "node:zlib";
import { describe, expect, test } from "vitest";
import { inspectWasm, maxWasmBytes } from "../../scripts/wasm-reader.mjs";
import { repository } from "./pack.ts";

describe.each(["simd", "relaxed"])("dist/wasm/%s.wasm", (variant) => {
  const bytes = readFileSync(join(repository, "dist/wasm", `${variant}.wasm`));
  const { imports, relaxedOpcodes } = inspectWasm(bytes);

  test(`is at most ${maxWasmBytes} bytes`, () => {
    expect(bytes.length).toBeLessThanOrEqual(maxWasmBytes);
  });

  test("has the sizes that the README names, within 2 %", () => {
    const readme = readFileSync(join(repository, "README.md"), "utf8");
    const row = readme.split("\n").find((line) => line.startsWith(`| dist/wasm/${variant}.wasm | `)) ?? "";
    const named = row.match(/[\d,]+(?= \|)/g)?.map((number) => Number(number.replaceAll(",", "")));
    const sizes = [bytes, gzipSync(bytes, { level: 9 }), brotliCompressSync(bytes)].map(
      ({ length }) => length,
    );
    expect(named, "numbers in the table of sizes").toHaveLength(sizes.length);
    named?.forEach((number, i) => {
      const size = sizes[i] as number;
      expect(Math.abs(number - size), `${number} in the README, ${size} in the file`).toBeLessThan(size / 50);
    });
  });

  test("imports nothing", () => {
    expect(imports).toEqual([]);
  });

  test(variant === "simd" ? "holds no relaxed opcode" : "holds relaxed opcodes", () => {
    if (variant === "simd") expect(relaxedOpcodes).toEqual([]);
    else expect(relaxedOpcodes).toContain("f32x4.relaxed_madd");
  });
});

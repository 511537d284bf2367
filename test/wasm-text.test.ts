import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { encodeModule, orderByFrequency, textsByRank } from "../scripts/wasm-text.mjs";
import { ALPHABET, decodeModule, SINGLES } from "../src/wasm-text.ts";

const texts = textsByRank(ALPHABET, SINGLES);

describe("the alphabet", () => {
  test("is printable ASCII that means nothing to strings, HTML, URLs, comments and templates", () => {
    expect(ALPHABET).toMatch(/^[!-~]+$/);
    expect(ALPHABET).not.toMatch(/["'`\\$<>&%#/*{}]/);
    expect(new Set(ALPHABET).size).toBe(ALPHABET.length);
  });

  test("has a text for each byte", () => {
    expect(texts.length).toBeGreaterThanOrEqual(256);
  });
});

describe("decodeModule", () => {
  const anyOrder = fc.shuffledSubarray([...Array(256).keys()], { minLength: 256, maxLength: 256 });
  const base64 = (order: number[]) => Buffer.from(order).toString("base64");

  test("gives back what was encoded, by any order of bytes", () => {
    fc.assert(
      fc.property(anyOrder, fc.uint8Array({ maxLength: 1000 }), (order, bytes) => {
        const text = encodeModule(bytes, order, texts);
        expect(decodeModule(base64(order), text, bytes.length)).toEqual(bytes);
      }),
    );
  });

  test("refuses a text that lost, gained or changed characters", () => {
    const changed = /the text of its WebAssembly module was changed/;
    const foreign = fc.constantFrom(" ", "\n", "\u00e9", "\ufffd", "<", '"', "%");
    fc.assert(
      fc.property(
        anyOrder,
        fc.uint8Array({ minLength: 1, maxLength: 99 }),
        fc.nat(),
        foreign,
        (order, bytes, at, c) => {
          const text = encodeModule(bytes, order, texts);
          const i = at % text.length;
          for (const wrong of [
            text.slice(0, i),
            text + text.slice(0, i + 1),
            text.slice(0, i) + c + text.slice(i),
            text.slice(0, i) + c + text.slice(i + 1),
          ]) {
            expect(() => decodeModule(base64(order), wrong, bytes.length)).toThrow(changed);
          }
        },
      ),
    );
  });
});

describe.each(["simd", "relaxed"] as const)("%s", (variant) => {
  const file = (path: string) => new URL(`../dist/${path}`, import.meta.url);
  const bytes = readFileSync(file(`wasm/${variant}.wasm`));

  test("decodes from dist/wasm-inline.js to the file beside it, byte for byte", async () => {
    const inline = (await import(file("wasm-inline.js").href)) as Record<typeof variant, () => Uint8Array>;
    expect(Buffer.compare(inline[variant](), bytes)).toBe(0);
  });

  test("is at most 6 % longer as text", () => {
    const text = encodeModule(bytes, orderByFrequency([bytes]), texts);
    expect(text.length).toBeLessThanOrEqual(1.06 * bytes.length);
  });
});

test("dist/wasm-inline.js is at most 6 % longer than the binaries", () => {
  const sizes = ["wasm-inline.js", "wasm/simd.wasm", "wasm/relaxed.wasm"].map(
    (path) => readFileSync(new URL(`../dist/${path}`, import.meta.url)).length,
  );
  const [text, simd, relaxed] = sizes as [number, number, number];
  expect(text).toBeLessThanOrEqual(1.06 * (simd + relaxed));
});

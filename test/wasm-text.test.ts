import { readFileSync } from "node:fs";
import fc from "fast-check";
import { describe, expect, test } from "vitest";
import { ALPHABET, decodeModule, SINGLES } from "../src/wasm-text.ts";

describe("the alphabet", () => {
  test("is printable ASCII without what a string of JavaScript or HTML gives a meaning to", () => {
    expect(ALPHABET).toMatch(/^[ -~]+$/);
    expect(ALPHABET).not.toMatch(/["'`\\$<]/);
    expect(new Set(ALPHABET).size).toBe(ALPHABET.length);
  });

  test("has a place for each byte", () => {
    expect(SINGLES + (ALPHABET.length - SINGLES) * ALPHABET.length).toBeGreaterThanOrEqual(256);
  });
});

describe("decodeModule", () => {
  const ranks = Array.from({ length: 256 }, (_, rank) => rank);
  /** The text of one rank, as the comment on top of src/wasm-text.ts has it. */
  const textOf = (rank: number) => {
    if (rank < SINGLES) return ALPHABET.charAt(rank);
    const beyond = rank - SINGLES;
    return (
      ALPHABET.charAt(SINGLES + Math.floor(beyond / ALPHABET.length)) +
      ALPHABET.charAt(beyond % ALPHABET.length)
    );
  };

  test("gives back bytes in any order of ranks", () => {
    fc.assert(
      fc.property(
        fc.shuffledSubarray(ranks, { minLength: 256, maxLength: 256 }),
        fc.array(fc.nat(255)),
        (order, bytes) => {
          const text = bytes.map((byte) => textOf(order.indexOf(byte))).join("");
          expect([...decodeModule(Buffer.from(order).toString("base64"), text)]).toEqual(bytes);
        },
      ),
    );
  });
});

describe.each(["simd", "relaxed"] as const)("the text of %s", (variant) => {
  const file = (path: string) => new URL(`../dist/${path}`, import.meta.url);

  test("decodes to the file beside it, byte for byte", async () => {
    const inline = (await import(file("wasm-inline.js").href)) as Record<typeof variant, () => Uint8Array>;
    expect(Buffer.compare(inline[variant](), readFileSync(file(`wasm/${variant}.wasm`)))).toBe(0);
  });
});

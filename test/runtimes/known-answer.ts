import { expect } from "vitest";

/** What a program of {@link attend} reports. */
export interface Answer {
  out: number[];
  info: { variant: string; reasons: string[] };
}

/**
 * JavaScript that defines `attend()`: one attention of two queries over two keys through the
 * library. Every runtime and bundler gets this same text.
 */
export const attend = `
import { info, scaledDotProductAttention } from "wasm-attention";
function attend() {
  const identity = { data: new Float32Array([1, 0, 0, 1]), shape: [2, 2] };
  const value = { data: new Float32Array([1, 2, 3, 4]), shape: [2, 2] };
  const out = Array.from(scaledDotProductAttention(identity, identity, value).data);
  return { out, info: info() };
}
`;

/** Weight of the matching key: softmax([1 / sqrt(2), 0])[0]. */
const weight = 1 / (1 + Math.exp(-Math.SQRT1_2));
const expected = [3 - 2 * weight, 4 - 2 * weight, 1 + 2 * weight, 2 + 2 * weight];

/** Asserts the known answer to 1e-6 and reports which variant computed it. */
export function expectRightAnswer(answer: Answer, where: string): void {
  expect(answer.out).toHaveLength(expected.length);
  for (const [i, value] of expected.entries()) {
    expect(Math.abs((answer.out[i] ?? Number.NaN) - value), `${where}: out[${i}]`).toBeLessThanOrEqual(1e-6);
  }
  console.log(`${where}: variant ${answer.info.variant} ${answer.info.reasons.join("; ")}`.trimEnd());
}

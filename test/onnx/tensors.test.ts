import { expect, it } from "vitest";
import { matMul, softmax } from "../../src/onnx/index.ts";
import { fromHalf, toHalf } from "../reference/float16.ts";
import { expectSame } from "../support.ts";

const one = { data: Float32Array.of(1), shape: [1, 1] };

it("widens every float16", () => {
  const bits = Uint16Array.from({ length: 2 ** 16 }, (_, i) => i);
  const column = (data: Uint16Array | Float32Array) =>
    matMul({}, { A: { data, shape: [2 ** 16, 1] }, B: one }).Y;
  // A sum begins at 0, which takes the sign of -0; Infinity and NaN are what they are.
  const want = Float32Array.from(bits, (b) => fromHalf(b) + 0);
  const { data, shape } = column(bits);
  expectSame({ data: data.map((x) => x + 0), shape }, { data: want, shape });
  for (const b of bits) if (!Number.isNaN(fromHalf(b))) expect(toHalf(fromHalf(b))).toBe(b);
});

/** An engine without Float16Array has none to give; the tag is what is looked at. */
class HalfArray extends Float64Array {
  // @ts-expect-error: another tag than that of the class it extends
  override get [Symbol.toStringTag]() {
    return "Float16Array";
  }
}

it("takes a Float16Array for what it holds, and dims for a shape", () => {
  const input = { data: HalfArray.of(0, 1, 2), shape: [3] } as never;
  const { output } = softmax({}, { input });
  expectSame(output, softmax({}, { input: { data: Float32Array.of(0, 1, 2), dims: [3] } }).output);
});

import type { RefTensor } from "../reference/rounding.ts";
import type { CaseTensor } from "./data.ts";

/** Inputs of an ONNX case: values, and the type they are stored in. */
export type Inputs = Record<string, RefTensor & Pick<CaseTensor, "dtype">>;

/** The inputs as the types of their files have them: float16 as bits, int64 in 64 bits, booleans in bytes. */
export function stored(
  inputs: Inputs,
): Record<string, { data: ArrayLike<number | bigint>; shape: number[] }> {
  return Object.fromEntries(
    Object.entries(inputs).map(([name, { dtype, data, shape }]) => [
      name,
      { data: storages[dtype](data), shape: [...shape] },
    ]),
  );
}

const storages: Record<CaseTensor["dtype"], (data: ArrayLike<number>) => ArrayLike<number | bigint>> = {
  float32: (data) => Float32Array.from(data),
  float64: (data) => Float32Array.from(data),
  float16: (data) => Uint16Array.from(data, float16Bits),
  int64: (data) => BigInt64Array.from(Array.from(data, BigInt)),
  bool: (data) => Uint8Array.from(data),
};

/** The bits of the float16 that is x; found by halving, not by the arithmetic it is to check. */
export function float16Bits(x: number): number {
  const sign = x < 0 || Object.is(x, -0) ? 0x8000 : 0;
  if (Number.isNaN(x)) return 0x7e00;
  if (Math.abs(x) === Infinity) return sign | 0x7c00;
  let [mantissa, exponent] = [Math.abs(x) * 2 ** 24, 1];
  while (mantissa >= 2048) [mantissa, exponent] = [mantissa / 2, exponent + 1];
  if (!Number.isInteger(mantissa)) throw new Error(`${x} is no float16`);
  return sign | (mantissa < 1024 ? mantissa : (exponent << 10) | (mantissa - 1024));
}

import { toHalf } from "../reference/float16.ts";
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
  float16: (data) => Uint16Array.from(data, toHalf),
  int64: (data) => BigInt64Array.from(Array.from(data, BigInt)),
  bool: (data) => Uint8Array.from(data),
};

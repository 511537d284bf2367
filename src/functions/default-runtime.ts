// The default runtime of the free functions, made when the first of them is called.
import { createRuntimeSync, type Runtime } from "../runtime.ts";
import type { ResidentTensor } from "../tensor.ts";
import type { RuntimeInfo } from "../types/runtime.ts";
import type { Shape } from "../types/tensor.ts";

let runtime: Runtime | undefined;

export function defaultRuntime(): Runtime {
  runtime ??= createRuntimeSync();
  return runtime;
}

/**
 * A tensor that lives in Wasm memory, for operands that are used often: no copy in or out. Zeros without `data`.
 *
 * @throws {RangeError} where `data` does not fill the shape, or memory is exhausted.
 * @example
 * using keys = tensor([2, 3], Float32Array.of(1, 2, 3, 4, 5, 6));
 */
export const tensor = (shape: Shape, data?: Float32Array): ResidentTensor =>
  defaultRuntime().tensor(shape, data);

/**
 * What the default runtime uses, and why not something better.
 *
 * @throws {Error} where the engine cannot run the kernels.
 * @example
 * const { variant, memoryBytes, reasons } = info(); // "relaxed", 65536, []
 */
export const info = (): RuntimeInfo => defaultRuntime().info();

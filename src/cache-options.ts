// The options of keyValueCache: read and checked.
import type { CacheShape } from "./cache-storage.ts";
import { readWindow } from "./positions.ts";
import { describe, MAX_AXIS, readInteger, readLayout, readOptions } from "./shapes.ts";
import type { Core } from "./tensor.ts";
import type { KeyValueCacheOptions } from "./types/cache.ts";

const FN = "keyValueCache";
const OPTIONS: ReadonlySet<keyof KeyValueCacheOptions> = new Set([
  "batch",
  "numKvHeads",
  "headDim",
  "valueDim",
  "capacity",
  "windowSize",
  "dtype",
  "layout",
]);

function readCount(name: string, value: unknown, fallback?: number): number {
  if (value === undefined && fallback !== undefined) return fallback;
  return readInteger(FN, name, value, 1, MAX_AXIS);
}

/** True for "float16". */
function readDtype(value: unknown): boolean {
  if (value === undefined || value === "float32") return false;
  if (value === "float16") return true;
  throw new TypeError(`${FN}: dtype must be "float32" or "float16", got ${describe(value)}`);
}

/** How far back a query sees, `unbounded` without a window. */
function readLeft(value: unknown, unbounded: number): number {
  if (value === undefined) return unbounded;
  const [left, right] = readWindow(FN, value, unbounded);
  if (right !== 0) {
    throw new RangeError(
      `${FN}: windowSize must be [left, 0], since a cache holds no keys to come, got ${describe(value)}`,
    );
  }
  return left;
}

export interface CacheOptions {
  readonly shape: CacheShape;
  /** A query at position p sees keys p - left and on; UNBOUNDED without a window. */
  readonly left: number;
  /** Absent where the cache grows. */
  readonly capacity: number | undefined;
  readonly isBlhd: boolean;
}

export function readCacheOptions({ kernels }: Core, given: KeyValueCacheOptions): CacheOptions {
  const options = readOptions(FN, given, OPTIONS);
  const headDim = readCount("headDim", options.headDim);
  const shape = {
    batch: readCount("batch", options.batch, 1),
    numKvHeads: readCount("numKvHeads", options.numKvHeads),
    headDim,
    valueDim: readCount("valueDim", options.valueDim, headDim),
    isHalf: readDtype(options.dtype),
  };
  const left = readLeft(options.windowSize, kernels.UNBOUNDED);
  const isBlhd = readLayout(FN, options.layout);
  if (options.capacity === undefined) return { shape, left, capacity: undefined, isBlhd };
  const capacity = readCount("capacity", options.capacity);
  if (capacity <= left && left < kernels.UNBOUNDED) {
    throw new RangeError(
      `${FN}: capacity must be at least the ${left + 1} keys of windowSize [${left}, 0], got ${capacity}`,
    );
  }
  return { shape, left, capacity, isBlhd };
}

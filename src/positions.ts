// Where each query stands against the keys, and how many keys count: queryOffset, causalAlignment, kvLengths.
import { describe, MAX_AXIS } from "./shapes.ts";
import type { Core } from "./tensor.ts";
import type { AttentionOptions } from "./types.ts";

/** Checks an Int32Array with one entry for each batch. */
function checkPerBatch(fn: string, name: string, value: unknown, batch: number): asserts value is Int32Array {
  if (!ArrayBuffer.isView(value) || Object.prototype.toString.call(value) !== "[object Int32Array]") {
    throw new TypeError(`${fn}: ${name} must be an Int32Array, got ${describe(value)}`);
  }
  const { length } = value as Int32Array;
  if (length !== batch) {
    throw new RangeError(`${fn}: ${name} must hold one entry for each of ${batch} batches, got ${length}`);
  }
}

function checkKvLengths(fn: string, value: unknown, batch: number, lk: number): void {
  checkPerBatch(fn, "kvLengths", value, batch);
  const wrong = value.findIndex((length) => length < 0 || length > lk);
  if (wrong >= 0) {
    throw new RangeError(
      `${fn}: kvLengths must be from 0 to the key length ${lk}, got ${value[wrong]} at batch ${wrong}`,
    );
  }
}

/** Throws unless the three options are of their types and fit the problem and each other. */
export function checkPositions(fn: string, options: AttentionOptions, batch: number, lk: number): void {
  const { queryOffset, causalAlignment, kvLengths } = options;
  if (kvLengths !== undefined) checkKvLengths(fn, kvLengths, batch, lk);
  if (causalAlignment !== undefined && causalAlignment !== "topLeft" && causalAlignment !== "bottomRight") {
    throw new TypeError(
      `${fn}: causalAlignment must be "topLeft" or "bottomRight", got ${describe(causalAlignment)}`,
    );
  }
  if (queryOffset === undefined) return;
  if (causalAlignment !== undefined) {
    throw new TypeError(
      `${fn}: queryOffset and causalAlignment both set the position, got ${describe(queryOffset)} and "${causalAlignment}"`,
    );
  }
  if (typeof queryOffset !== "number") checkPerBatch(fn, "queryOffset", queryOffset, batch);
  else if (!Number.isInteger(queryOffset)) {
    throw new RangeError(`${fn}: queryOffset must be an integer, got ${queryOffset}`);
  }
  // Causal alone sees nothing new beyond the longest axis (writePositions clamps); a window and a distance do.
  if (options.windowSize === undefined && options.alibiSlopes === undefined) return;
  const offsets = typeof queryOffset === "number" ? [queryOffset] : queryOffset;
  for (const offset of offsets) {
    if (Math.abs(offset) > MAX_AXIS) {
      throw new RangeError(
        `${fn}: queryOffset must be from ${-MAX_AXIS} to ${MAX_AXIS} with windowSize or alibiSlopes, got ${offset}`,
      );
    }
  }
}

/** Position of query 0 of batch b, which has `kvLength` keys. */
function positionOf(options: AttentionOptions, b: number, lq: number, kvLength: number): number {
  const { queryOffset } = options;
  if (queryOffset === undefined) return options.causalAlignment === "bottomRight" ? kvLength - lq : 0;
  return typeof queryOffset === "number" ? queryOffset : queryOffset[b]!;
}

/** Writes `batch` positions at one address and `batch` valid lengths at the other, as int32. */
export function writePositions(
  core: Core,
  options: AttentionOptions,
  batch: number,
  lq: number,
  lk: number,
  offsets: number,
  lengths: number,
): void {
  const { i32 } = core.memory;
  for (let b = 0; b < batch; b++) {
    const kvLength = options.kvLengths === undefined ? lk : options.kvLengths[b]!;
    // Under isCausal a position beyond the longest axis on either side sees what one at that bound sees.
    i32[(offsets >>> 2) + b] = Math.max(-MAX_AXIS, Math.min(MAX_AXIS, positionOf(options, b, lq, kvLength)));
    i32[(lengths >>> 2) + b] = kvLength;
  }
}

// Where each query stands against the keys, how far it sees from there, and how many keys count: queryOffset,
// causalAlignment, windowSize, kvLengths.
import type { Problem } from "./attention-problem.ts";
import { describe, MAX_AXIS, readInt32Array, refuseNumber } from "./shapes.ts";
import type { Core } from "./tensor.ts";
import type { AttentionOptions } from "./types/attention.ts";

/** A copy of an Int32Array with one entry for each batch. */
function readPerBatch(fn: string, name: string, value: unknown, batch: number, orElse = ""): Int32Array {
  const copy = readInt32Array(fn, name, value, orElse);
  if (copy.length !== batch) {
    throw new RangeError(
      `${fn}: ${name} must hold one entry for each of ${batch} batches, got ${copy.length}`,
    );
  }
  return copy;
}

function readKvLengths(fn: string, value: unknown, batch: number, lk: number): Int32Array {
  const lengths = readPerBatch(fn, "kvLengths", value, batch);
  const wrong = lengths.findIndex((length) => length < 0 || length > lk);
  if (wrong >= 0) {
    throw new RangeError(
      `${fn}: kvLengths must be from 0 to the key length ${lk}, got ${lengths[wrong]} at batch ${wrong}`,
    );
  }
  return lengths;
}

/** Where the queries stand and what keys count, checked. */
export interface Positions {
  readonly queryOffset: number | Int32Array | undefined;
  readonly isBottomRight: boolean;
  readonly kvLengths: Int32Array | undefined;
}

/** Checks that the three options are of their types and fit the problem and each other. */
export function readPositions(fn: string, options: AttentionOptions, p: Problem): Positions {
  const { queryOffset, causalAlignment, kvLengths } = options;
  const lengths = kvLengths === undefined ? undefined : readKvLengths(fn, kvLengths, p.batch, p.lk);
  if (causalAlignment !== undefined && causalAlignment !== "topLeft" && causalAlignment !== "bottomRight") {
    throw new TypeError(
      `${fn}: causalAlignment must be "topLeft" or "bottomRight", got ${describe(causalAlignment)}`,
    );
  }
  return {
    queryOffset: queryOffset === undefined ? undefined : readQueryOffset(fn, queryOffset, options, p.batch),
    isBottomRight: causalAlignment === "bottomRight",
    kvLengths: lengths,
  };
}

function readQueryOffset(
  fn: string,
  given: number | Int32Array,
  options: AttentionOptions,
  batch: number,
): number | Int32Array {
  if (options.causalAlignment !== undefined) {
    throw new TypeError(
      `${fn}: queryOffset and causalAlignment both set the position, got ${describe(given)} and "${options.causalAlignment}"`,
    );
  }
  const queryOffset =
    typeof given === "number" ? given : readPerBatch(fn, "queryOffset", given, batch, "an integer or ");
  if (typeof given === "number" && !Number.isInteger(given)) {
    refuseNumber(fn, "queryOffset", "an integer", given);
  }
  // Causal alone sees nothing new beyond the longest axis (writePositions clamps); a window and a distance do.
  if (options.windowSize === undefined && options.alibiSlopes === undefined) return queryOffset;
  for (const offset of typeof queryOffset === "number" ? [queryOffset] : queryOffset) {
    if (Math.abs(offset) > MAX_AXIS) {
      throw new RangeError(
        `${fn}: queryOffset must be from ${-MAX_AXIS} to ${MAX_AXIS} with windowSize or alibiSlopes, got ${offset}`,
      );
    }
  }
  return queryOffset;
}

/** One side of the window: -1 and Infinity are without end. */
function readSide(fn: string, value: unknown, unbounded: number): number {
  if (value === -1 || value === Infinity) return unbounded;
  if (!Number.isInteger(value) || (value as number) < -1) {
    const kind = "an integer of 0 or more, or -1 or Infinity for no bound";
    refuseNumber(fn, "each side of windowSize", kind, value);
  }
  return Math.min(value as number, unbounded);
}

/** Checks windowSize; `unbounded` stands for a side without end. */
export function readWindow(fn: string, window: unknown, unbounded: number): [left: number, right: number] {
  if (window === undefined) return [unbounded, unbounded];
  if (!Array.isArray(window) || window.length !== 2) {
    throw new TypeError(`${fn}: windowSize must be [left, right], got ${describe(window)}`);
  }
  return [readSide(fn, window[0], unbounded), readSide(fn, window[1], unbounded)];
}

/** Position of query 0 of batch b, which has `kvLength` keys. */
function positionOf(
  { queryOffset, isBottomRight }: Positions,
  b: number,
  lq: number,
  kvLength: number,
): number {
  if (queryOffset === undefined) return isBottomRight ? kvLength - lq : 0;
  return typeof queryOffset === "number" ? queryOffset : queryOffset[b]!;
}

/** Writes a position for each batch at one address and a number of valid keys at the other, as int32. */
export function writePositions(
  core: Core,
  positions: Positions,
  p: Problem,
  offsets: number,
  lengths: number,
): void {
  const { i32 } = core.memory;
  for (let b = 0; b < p.batch; b++) {
    const kvLength = positions.kvLengths === undefined ? p.lk : positions.kvLengths[b]!;
    // Under isCausal a position beyond the longest axis on either side sees what one at that bound sees.
    i32[(offsets >>> 2) + b] = Math.max(
      -MAX_AXIS,
      Math.min(MAX_AXIS, positionOf(positions, b, p.lq, kvLength)),
    );
    i32[(lengths >>> 2) + b] = kvLength;
  }
}

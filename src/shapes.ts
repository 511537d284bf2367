// Shapes, and what every call reads: options, numbers, the errors for them. Sizes are computed in doubles, before anything is allocated.
import type { Shape } from "./types/tensor.ts";

/** Longest axis: positions and window sides are 32-bit integers in the kernels, with room to add two. */
export const MAX_AXIS = 2 ** 28;

export function showShape(shape: readonly (number | string)[]): string {
  return `[${Array.from(shape, String).join(", ")}]`;
}

/** Number of elements. */
export function sizeOf(shape: Shape): number {
  let size = 1;
  for (let i = 0; i < shape.length; i++) {
    if (shape[i] === 0) return 0; // also where the others are beyond what a number holds
    size *= shape[i]!;
  }
  return size;
}

export function sameShape(a: Shape, b: readonly (number | string)[]): boolean {
  if (a.length !== b.length) return false;
  for (let i = 0; i < a.length; i++) if (a[i] !== b[i]) return false;
  return true;
}

/** Throws a RangeError: what the rule is, and what there was. */
export function fail(fn: string, rule: string, got: string): never {
  throw new RangeError(`${fn}: ${rule}, got ${got}`);
}

/** Throws for a value that must be a number of some kind: a RangeError for another number, else a TypeError. */
export function refuseNumber(fn: string, name: string, kind: string, value: unknown): never {
  throw new (typeof value === "number" ? RangeError : TypeError)(
    `${fn}: ${name} must be ${kind}, got ${describe(value)}`,
  );
}

/** A copy of a shape, or an error unless every axis is an integer from 0 to MAX_AXIS. */
export function copyShape(fn: string, name: string, shape: unknown): number[] {
  if (!Array.isArray(shape)) {
    throw new TypeError(`${fn}: ${name}.shape must be an array of axis lengths, got ${describe(shape)}`);
  }
  const copy: unknown[] = [...shape]; // not slice, which would ask the constructor of a subclass for an array
  for (let i = 0; i < copy.length; i++) {
    const length = copy[i];
    if (!Number.isInteger(length) || (length as number) < 0) {
      throw new (typeof length === "number" ? RangeError : TypeError)(
        `${fn}: ${name}.shape must hold non-negative integers, got ${describe(length)} at axis ${i} of ${showShape(copy as Shape)}`,
      );
    }
    if ((length as number) > MAX_AXIS) {
      throw new RangeError(
        `${fn}: ${name}.shape[${i}] is ${String(length)}, more than the longest axis ${MAX_AXIS}`,
      );
    }
  }
  return copy as number[];
}

/** Non-negative axis number, or an error that names the rank. */
export function normalizeAxis(fn: string, axis: unknown, rank: number, name = "x"): number {
  if (!Number.isInteger(axis)) refuseNumber(fn, "axis", "an integer", axis);
  if (rank === 0) throw new RangeError(`${fn}: ${name} must have rank 1 or more for an axis, got a scalar`);
  const index = (axis as number) < 0 ? (axis as number) + rank : (axis as number);
  if (index < 0 || index >= rank) {
    throw new RangeError(
      `${fn}: axis must be from ${-rank} to ${rank - 1} for rank ${rank}, got ${String(axis)}`,
    );
  }
  return index;
}

/** A value as an error message shows it. */
export function describe(value: unknown): string {
  if (value === null || value === undefined) return String(value);
  if (typeof value === "string") return JSON.stringify(value);
  if (typeof value === "bigint") return `${value}n`;
  if (Array.isArray(value)) return value.length > 8 ? `an array of ${value.length}` : showShape(value);
  if (typeof value === "object") {
    const tag = Object.prototype.toString.call(value).slice(8, -1);
    if (tag === "Object") return `an object with keys ${showShape(Object.keys(value) as never)}`;
    return `${/^[AEIO]/.test(tag) ? "an" : "a"} ${tag}`; // a Uint8Array
  }
  return typeof value === "function" ? "a function" : String(value);
}

/** The options where none are given. */
export const NONE: Readonly<Record<string, never>> = Object.freeze({});

/** Says what is wrong with an option that is not known: a tensor in the place of options, a name of PyTorch's, another. */
function refuseOption(fn: string, key: string, given: object, known: ReadonlySet<PropertyKey>): never {
  if (ArrayBuffer.isView((given as { data?: unknown }).data) || ArrayBuffer.isView(given)) {
    throw new TypeError(`${fn}: options must be an object of options, got a tensor: name it, as one of them`);
  }
  const name = key.replace(/[._]+(\w)/g, (_, letter: string) => letter.toUpperCase());
  const hint = known.has(name) ? `did you mean ${name}?` : `this version knows ${[...known].join(", ")}`;
  throw new TypeError(`${fn}: unknown option "${key}"; ${hint}`);
}

/**
 * The options, each read once into an object of our own: a getter cannot change one after it was checked, nor call back
 * in the middle of a call. Throws a TypeError for the first key that is not known.
 */
export function readOptions<O extends object>(fn: string, options: O, names: ReadonlySet<keyof O>): O {
  if (options === NONE) return options;
  const known: ReadonlySet<PropertyKey> = names;
  if (typeof options !== "object" || options === null) {
    throw new TypeError(`${fn}: options must be an object, got ${describe(options)}`);
  }
  const given = options as Record<string, unknown>;
  const read: Record<string, unknown> = {};
  const keys = Object.keys(given);
  for (let i = 0; i < keys.length; i++) {
    const key = keys[i]!;
    if (!known.has(key)) refuseOption(fn, key, given, known);
    read[key] = given[key];
  }
  const prototype: unknown = Object.getPrototypeOf(given);
  if (prototype === Object.prototype || prototype === null) return read as O; // asking for all would cost 0.2 us
  for (const key of known as ReadonlySet<string>) if (!(key in read)) read[key] = given[key];
  return read as O;
}

/** The flag, or false where it is absent. */
export function readFlag(fn: string, name: string, value: unknown): boolean {
  if (value === undefined) return false;
  if (typeof value !== "boolean")
    throw new TypeError(`${fn}: ${name} must be true or false, got ${describe(value)}`);
  return value;
}

/** True for "blhd", false for "bhld" and where it is absent. */
export function readLayout(fn: string, layout: unknown): boolean {
  if (layout === undefined || layout === "bhld") return false;
  if (layout === "blhd") return true;
  throw new TypeError(`${fn}: layout must be "bhld" or "blhd", got ${describe(layout)}`);
}

/** Throws unless the shape has the axes of its layout. */
export function checkRank(fn: string, name: string, shape: Shape, isBlhd: boolean): void {
  if (shape.length >= (isBlhd ? 3 : 2)) return;
  const form = isBlhd
    ? "[..., length, heads, headDim]"
    : "[..., heads, length, headDim] or [length, headDim]";
  fail(fn, `${name} must have shape ${form}`, showShape(shape));
}

/** The number, or the default where it is absent. NaN, and what is infinite as a float32, are errors. */
export function readNumber(fn: string, name: string, value: unknown, fallback: number): number {
  if (value === undefined) return fallback;
  if (typeof value !== "number" || !Number.isFinite(Math.fround(value))) {
    refuseNumber(fn, name, "a finite float32 number", value);
  }
  return value;
}

/** A copy of an Int32Array of any realm, so that no view is read after memory has grown. */
export function readInt32Array(fn: string, name: string, value: unknown, orElse = ""): Int32Array {
  if (!ArrayBuffer.isView(value) || Object.prototype.toString.call(value) !== "[object Int32Array]") {
    throw new TypeError(`${fn}: ${name} must be ${orElse}an Int32Array, got ${describe(value)}`);
  }
  return new Int32Array(value as Int32Array);
}

/** The integer, which must be from `min` to `max`. */
export function readInteger(fn: string, name: string, value: unknown, min: number, max = Infinity): number {
  if (!Number.isInteger(value) || (value as number) < min || (value as number) > max) {
    const range = max === Infinity ? `of ${min} or more` : `from ${min} to ${max}`;
    refuseNumber(fn, name, `an integer ${range}`, value);
  }
  return value as number;
}

/** The positive number, Infinity included. */
export function readPositive(fn: string, name: string, value: unknown): number {
  if (typeof value !== "number" || !(value > 0)) refuseNumber(fn, name, "a positive number", value);
  return value;
}

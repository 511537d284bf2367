import { expect } from "vitest";
import { type TestTensor, uniform } from "./random.ts";
import { float32, float64, type RefTensor, type Rounding } from "./rounding.ts";

/** Spacing of the float32 numbers at x, which has 24 significant bits (2^-149 among the subnormals). */
export function ulp32(x: number): number {
  return ulp(x, 23, -126);
}

/** Spacing of the float16 numbers at x, which has 11 significant bits. */
export function ulp16(x: number): number {
  return ulp(x, 10, -14);
}

function ulp(x: number, fractionBits: number, minExponent: number): number {
  if (!Number.isFinite(x)) return 0;
  let exponent = minExponent;
  for (let power = 2 ** (minExponent + 1); power <= Math.abs(x); power *= 2) exponent++;
  return 2 ** (exponent - fractionBits);
}

const finite = (x: number): boolean => Number.isFinite(x);

/** Largest |a - b| over the elements that are finite in both. */
export function maxError(a: ArrayLike<number>, b: ArrayLike<number>): number {
  let worst = 0;
  for (let i = 0; i < a.length; i++) {
    const error = Math.abs((a[i] as number) - (b[i] as number));
    if (finite(error)) worst = Math.max(worst, error);
  }
  return worst;
}

/**
 * The tolerance a float32 result is held to: twice (`factor`) what the plain float32 form of the same formulas is
 * off by on the same input, so that it follows the conditioning of the problem and no number is made
 * up. The plain form may be exact by luck; but a result rounded to float32 is itself off by up to half an
 * ulp, so that is the least error counted, at the largest value expected.
 */
export function tolerance(expected: ArrayLike<number>, plainFloat32: ArrayLike<number>, factor = 2): number {
  let largest = 0;
  for (let i = 0; i < expected.length; i++) {
    const x = Math.abs(expected[i] as number);
    if (finite(x)) largest = Math.max(largest, x);
  }
  return factor * Math.max(maxError(plainFloat32, expected), ulp32(largest) / 2);
}

/** What is wanted of a computation, and the tolerance of each of its results. */
export interface Calibrated {
  readonly want: readonly RefTensor[];
  readonly tolerances: readonly number[];
}

/** Every variant asks for the same problems, and the references are slow. */
const known = new Map<string, Calibrated>();

export interface CalibrateOptions {
  /** How often the problem is computed. Default: until there are 512 numbers, from 2 to 32 times. */
  readonly draws?: number;
  /** Inputs, by index, that are not moved, since what they give is exact on purpose. */
  readonly fixed?: readonly number[];
  /** How many times the error of plain float32 is allowed, of all results or of each. Default 2; gradients take 3. */
  readonly factor?: number | readonly number[];
}

/**
 * Tolerances for problems where what matters most may come out nearly exact in plain float32 by luck: a single
 * number, or the one row with the worst conditioning. So the same problem is computed again and again
 * with its inputs moved by up to a thousandth, which changes little but how the roundings fall, and the
 * largest error counts. `label` says what is computed: with the inputs it identifies the problem. Where
 * there is more than one plain form, `compute` may take another one for each draw.
 */
export function calibrate<T extends readonly TestTensor[]>(
  label: string,
  inputs: T,
  compute: (inputs: T, round: Rounding, draw: number) => readonly RefTensor[],
  { draws, fixed = [], factor = 2 }: CalibrateOptions = {},
): Calibrated {
  const factorOf = (i: number): number => (typeof factor === "number" ? factor : (factor[i] as number));
  const identity = [label, factor, ...inputs.map(({ data, shape }) => `${digest(data)}:${shape}`)].join(" ");
  const found = known.get(identity);
  if (found) return found;
  const want = compute(inputs, float64, 0);
  const plain = compute(inputs, float32, 0);
  const tolerances = want.map((tensor, i) =>
    tolerance(tensor.data, (plain[i] as RefTensor).data, factorOf(i)),
  );
  const numbers = Math.max(1, ...want.map(({ data }) => data.length));
  const count = draws ?? Math.max(2, Math.min(32, Math.ceil(512 / numbers)));
  for (let draw = 1; draw < count; draw++) {
    const moved = inputs.map((t, i) =>
      fixed.includes(i) ? t : moveSlightly(t, 64 * draw + i),
    ) as unknown as T;
    const [exact, rounded] = [compute(moved, float64, draw), compute(moved, float32, draw)];
    exact.forEach((tensor, i) => {
      const error = maxError(tensor.data, (rounded[i] as RefTensor).data);
      tolerances[i] = Math.max(tolerances[i] as number, factorOf(i) * error);
    });
  }
  const calibrated = { want, tolerances };
  known.set(identity, calibrated);
  return calibrated;
}

/** A short name for the contents of an array (FNV-1a over its bytes). */
export function digest(data: ArrayBufferView): string {
  let hash = 0x811c9dc5;
  for (const byte of new Uint8Array(data.buffer, data.byteOffset, data.byteLength)) {
    hash = Math.imul(hash ^ byte, 0x01000193);
  }
  return (hash >>> 0).toString(16);
}

function moveSlightly({ data, shape }: TestTensor, seed: number): TestTensor {
  const next = uniform(seed);
  const move = (x: number): number => {
    const moved = Math.fround(x * (1 + (next() - 0.5) * 2 ** -9));
    return finite(moved) ? moved : x; // what overflowed would be another problem
  };
  return { data: data.map(move), shape };
}

/**
 * Holds every finite element to the tolerance, and NaN and infinities to being just that. A tolerance
 * of 0 asks for equality (0 and -0 are equal).
 */
export function expectClose(got: RefTensor, want: RefTensor, tol: number, label = "result"): void {
  expect([...got.shape], `${label}: shape`).toEqual([...want.shape]);
  expect(got.data.length, `${label}: length of data`).toBe(want.data.length);
  let worst = -1;
  let worstError = tol;
  for (let i = 0; i < want.data.length; i++) {
    const g = got.data[i] as number;
    const w = want.data[i] as number;
    const same = g === w || (Number.isNaN(g) && Number.isNaN(w));
    const error = same ? 0 : finite(g) && finite(w) ? Math.abs(g - w) : Infinity;
    if (error > worstError) {
      worst = i;
      worstError = error;
    }
  }
  if (worst >= 0) {
    const at = `[${coordinates(worst, want.shape)}] of [${want.shape}]`;
    const values = `got ${got.data[worst]}, want ${want.data[worst]}, error ${worstError}`;
    expect.fail(`${label}: worst at ${at}: ${values}, tolerance ${tol}`);
  }
}

/** Bit for bit, except that any NaN equals any other: its payload is not defined. */
export function expectSame(got: RefTensor, want: RefTensor, label = "result"): void {
  expect([...got.shape], `${label}: shape`).toEqual([...want.shape]);
  for (let i = 0; i < want.data.length; i++) {
    if (Object.is(got.data[i], want.data[i])) continue;
    const at = `[${coordinates(i, want.shape)}] of [${want.shape}]`;
    expect.fail(`${label}: differs at ${at}: got ${got.data[i]}, want ${want.data[i]}`);
  }
  expect(got.data.length, `${label}: length of data`).toBe(want.data.length);
}

function coordinates(flat: number, shape: readonly number[]): number[] {
  const index: number[] = [];
  let rest = flat;
  for (const n of [...shape].reverse()) {
    index.unshift(rest % n);
    rest = Math.floor(rest / n);
  }
  return index;
}

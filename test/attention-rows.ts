import { expect } from "vitest";
import type { AttentionOptions, MaskLike } from "../src/index.ts";
import type { AttentionProblem } from "./arbitraries.ts";
import { keysSeenBy, positionOf } from "./reference/attention.ts";
import type { RefTensor } from "./reference/rounding.ts";
import { forReference, type TestTensor } from "./support.ts";

/** Entry b of the batch, with its axis of length 1. */
export function entry(t: { data: Float32Array; shape: readonly number[] }, b: number): TestTensor {
  const size = t.data.length / (t.shape[0] as number);
  return { data: t.data.slice(b * size, (b + 1) * size), shape: [1, ...t.shape.slice(1)] };
}

export function optionsOfEntry(options: AttentionOptions, b: number): AttentionOptions {
  const { attnMask, queryOffset, kvLengths } = options;
  const of = (x: Int32Array): Int32Array => x.slice(b, b + 1);
  return {
    ...options,
    attnMask: attnMask && maskOfEntry(attnMask, b),
    queryOffset: typeof queryOffset === "object" ? of(queryOffset) : queryOffset,
    kvLengths: kvLengths && of(kvLengths),
  };
}

function maskOfEntry(mask: MaskLike, b: number): MaskLike {
  if (!("shape" in mask) || mask.shape.length < 4 || mask.shape[0] === 1) return mask;
  const size = mask.data.length / 4;
  return { data: mask.data.slice(b * size, (b + 1) * size), shape: [1, ...mask.shape.slice(1)] } as MaskLike;
}

/** Query i of [batch, heads, lq, width], with its axis of length 1. */
export function queryAt(
  { data, shape }: { data: Float32Array; shape: readonly number[] },
  i: number,
): TestTensor {
  const [batch, heads, lq, width] = shape as [number, number, number, number];
  const rows = Array.from({ length: batch * heads }, (_, bh) => (bh * lq + i) * width);
  return {
    data: Float32Array.from(rows.flatMap((first) => [...data.subarray(first, first + width)])),
    shape: [batch, heads, 1, width],
  };
}

/** Options that leave query i where it stands when it comes alone. */
export function optionsOfQuery({ shape, options }: AttentionProblem, i: number): AttentionOptions {
  const { causalAlignment, attnMask, ...others } = options;
  const { batch, lq, lk } = shape;
  const queryOffset = Int32Array.from({ length: batch }, (_, b) =>
    positionOf(b, i, lq, lk, forReference(options)),
  );
  return { ...others, queryOffset, attnMask: attnMask && maskOfQuery(attnMask, lq, i) };
}

function maskOfQuery(mask: MaskLike, lq: number, i: number): MaskLike {
  if (!("shape" in mask) || (mask.shape.at(-2) ?? 1) === 1) return mask;
  const lk = mask.shape.at(-1) as number;
  const rows = Array.from({ length: mask.data.length / (lq * lk) }, (_, n) => (n * lq + i) * lk);
  const values = rows.flatMap((first) => Array.from(mask.data.slice(first, first + lk), Number));
  const data = mask.data instanceof Float32Array ? Float32Array.from(values) : Uint8Array.from(values);
  return { data, shape: [...mask.shape.slice(0, -2), 1, lk] } as MaskLike;
}

/** [b, m, n, width] to [b, n, m, width]. */
export function swapAxes({ data, shape }: { data: Float32Array; shape: readonly number[] }): TestTensor {
  const [b, m, n, width] = shape as [number, number, number, number];
  const swapped = new Float32Array(data.length);
  for (let row = 0; row < b * m * n; row++) {
    const [bi, mi, ni] = [Math.floor(row / (m * n)), Math.floor(row / n) % m, row % n];
    swapped.set(data.subarray(row * width, (row + 1) * width), ((bi * n + ni) * m + mi) * width);
  }
  return { data: swapped, shape: [b, n, m, width] };
}

/** Calls f with each row of the output, its key/value head and the keys it sees. */
function eachRow(
  { shape, options }: AttentionProblem,
  f: (row: number, hKv: number, keys: number[]) => void,
): void {
  const { batch, heads, kvHeads, lq, lk } = shape;
  for (let row = 0; row < batch * heads * lq; row++) {
    const [b, h, i] = [Math.floor(row / (heads * lq)), Math.floor(row / lq) % heads, row % lq];
    f(
      row,
      b * kvHeads + Math.floor((h * kvHeads) / heads),
      keysSeenBy(b, h, i, lq, lk, forReference(options)),
    );
  }
}

/** For each row of key and value, flat over batch, head and length, whether any query sees it. */
export function seenByAny(problem: AttentionProblem): boolean[] {
  const { batch, kvHeads, lk } = problem.shape;
  const seen = Array<boolean>(batch * kvHeads * lk).fill(false);
  eachRow(problem, (_, hKv, keys) => {
    for (const j of keys) seen[hKv * lk + j] = true;
  });
  return seen;
}

/** Which results one element of q, k or v has a part in: a value only in its own column of the output. */
export function touchedBy(problem: AttentionProblem, name: string, element: number) {
  const { d, dv, lk } = problem.shape;
  const source = Math.floor(element / (name === "v" ? dv : d));
  const rows = new Set<number>();
  eachRow(problem, (row, hKv, keys) => {
    const isTouched =
      name === "q"
        ? row === source && keys.length > 0
        : hKv === Math.floor(source / lk) && keys.includes(source % lk);
    if (isTouched) rows.add(row);
  });
  return {
    out: (n: number) => rows.has(Math.floor(n / dv)) && (name !== "v" || n % dv === element % dv),
    lse: (n: number) => rows.has(n) && name !== "v",
  };
}

export function expectTouched(
  got: RefTensor,
  clean: RefTensor,
  touched: (n: number) => boolean,
  bad: number,
  what: string,
): void {
  for (let n = 0; n < clean.data.length; n++) {
    if (!touched(n) && !Object.is(got.data[n], clean.data[n])) {
      expect.fail(`${what}: element ${n} does not see ${bad}, yet ${clean.data[n]} became ${got.data[n]}`);
    }
    // An infinite score may also mean no weight at all; what a row makes of it is up to the formulas.
    if (touched(n) && Number.isNaN(bad) && !Number.isNaN(got.data[n])) {
      expect.fail(`${what}: element ${n} sees NaN, yet it is ${got.data[n]}`);
    }
  }
}

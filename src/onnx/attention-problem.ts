// Attention's attributes and inputs: checked against the schema and each other, brought to what the core takes.
import { fail, showShape } from "../shapes.ts";
import type { AttentionOptions } from "../types/attention.ts";
import type { Shape } from "../types/tensor.ts";
import { type OnnxMask, readMask } from "./attention-mask.ts";
import { type Call, checkPrecision, readBit, readFloat, readInteger } from "./schema.ts";
import { concatLengths, type Floats, readFloats, readIntegers, reshape, swapMiddle } from "./tensors.ts";

/** The sizes of one call. */
export interface Sizes {
  readonly batch: number;
  readonly heads: number;
  readonly kvHeads: number;
  /** Queries, keys of the past, and all keys. */
  readonly lq: number;
  readonly past: number;
  readonly keys: number;
  readonly d: number;
  readonly dv: number;
}

/** A call that is checked. */
export interface Problem {
  readonly sizes: Sizes;
  /** Rank 3: the result has that rank as well. */
  readonly isPacked: boolean;
  readonly layout: "bhld" | "blhd";
  /** Of rank 4, in the order of `layout`; k and v with the past before them. */
  readonly q: Floats;
  readonly k: Floats;
  readonly v: Floats;
  readonly hasPast: boolean;
  readonly mask: OnnxMask | undefined;
  /** Position of query 0 of each batch entry, and how many keys each has. */
  readonly offsets: Int32Array;
  readonly lengths: Int32Array | undefined;
  readonly isCausal: boolean;
  /** Keys that are seen before and after the position; -1 is no bound. */
  readonly window: readonly [left: number, right: number];
  readonly scale: number;
  readonly softcap: number;
}

/** Two sizes that must be equal, the second being that of what the first follows. */
function checkEqual(fn: string, rule: string, a: number, shapeA: Shape, b: number, shapeB: Shape): void {
  if (a !== b) fail(fn, rule, `${a} and ${b}: ${showShape(shapeA)} and ${showShape(shapeB)}`);
}

/** Rank 3 [batch, length, heads * width] as [batch, length, heads, width]. */
function splitHeads(call: Call, name: string, x: Floats, attribute: string): Floats {
  const heads = readInteger(call, attribute, undefined, 1);
  if (heads === undefined) {
    throw new TypeError(
      `${call.fn}: ${attribute} is required with inputs of rank 3, got ${name} ${showShape(x.shape)}`,
    );
  }
  const [batch, length, width] = x.shape as [number, number, number];
  if (width % heads !== 0) {
    fail(
      call.fn,
      `the last axis of ${name} must be a multiple of ${attribute}`,
      `${showShape(x.shape)} and ${heads}`,
    );
  }
  return reshape(x, [batch, length, heads, width / heads]);
}

/** With rank 4 the number of heads stands in the shape: to give it as well is an error from version 25 on. */
function checkHeads(call: Call, attribute: string, name: string, { shape }: Floats): void {
  const heads = readInteger(call, attribute, undefined, 1);
  if (heads === undefined) return;
  if (call.since >= 25) {
    throw new TypeError(
      `${call.fn}: ${attribute} is for inputs of rank 3 in ${call.schema}, got ${heads} and ${name} ${showShape(shape)}`,
    );
  }
  if (heads !== shape[1])
    fail(call.fn, `${attribute} must be the heads of ${name}`, `${heads} and ${showShape(shape)}`);
}

/** Q, K and V as tensors of rank 4, heads second or, where they were packed, third. */
function readOperands(call: Call): { q: Floats; k: Floats; v: Floats; isPacked: boolean } {
  const { fn, inputs } = call;
  const [q, k, v] = [
    readFloats(fn, "Q", inputs.Q),
    readFloats(fn, "K", inputs.K),
    readFloats(fn, "V", inputs.V),
  ];
  const ranks = [q, k, v].map(({ shape }) => shape.length);
  if ((ranks[0] !== 3 && ranks[0] !== 4) || ranks[1] !== ranks[0] || ranks[2] !== ranks[0]) {
    const shapes = [q, k, v].map(({ shape }) => showShape(shape)).join(", ");
    fail(fn, "Q, K and V must all have rank 4 or all rank 3", shapes);
  }
  if (ranks[0] === 3) {
    return {
      q: splitHeads(call, "Q", q, "q_num_heads"),
      k: splitHeads(call, "K", k, "kv_num_heads"),
      v: splitHeads(call, "V", v, "kv_num_heads"),
      isPacked: true,
    };
  }
  checkHeads(call, "q_num_heads", "Q", q);
  checkHeads(call, "kv_num_heads", "K", k);
  return { q, k, v, isPacked: false };
}

/** The past, [batch, kvHeads, past, width] in either rank of the inputs; it must fit K or V. */
function readPast(call: Call, name: string, of: Floats, isPacked: boolean): Floats {
  const past = readFloats(call.fn, name, call.inputs[name]);
  const [batch, one, two, width] = of.shape as [number, number, number, number];
  const heads = isPacked ? two : one;
  const { shape } = past;
  if (shape.length !== 4 || shape[0] !== batch || shape[1] !== heads || shape[3] !== width) {
    fail(
      call.fn,
      `${name} must have shape [${batch}, ${heads}, length of the past, ${width}]`,
      showShape(shape),
    );
  }
  return past;
}

/** Throws unless the shapes of one call agree. */
function readSizes(fn: string, q: Shape, k: Shape, v: Shape, isPacked: boolean, past: number): Sizes {
  const [head, length] = isPacked ? [2, 1] : [1, 2];
  const sizes = {
    batch: q[0]!,
    heads: q[head]!,
    kvHeads: k[head]!,
    lq: q[length]!,
    past,
    keys: past + k[length]!,
    d: q[3]!,
    dv: v[3]!,
  };
  checkEqual(fn, "batch of K must be that of Q", k[0]!, k, sizes.batch, q);
  checkEqual(fn, "batch of V must be that of Q", v[0]!, v, sizes.batch, q);
  checkEqual(fn, "head size of K must be that of Q", k[3]!, k, sizes.d, q);
  checkEqual(fn, "heads of V must be those of K", v[head]!, v, sizes.kvHeads, k);
  checkEqual(fn, "length of V must be that of K", v[length]!, v, k[length]!, k);
  if (sizes.d === 0) fail(fn, "head size of Q must be at least 1", showShape(q));
  if (sizes.heads > 0 && (sizes.kvHeads === 0 || sizes.heads % sizes.kvHeads !== 0))
    fail(fn, "heads of Q must be a multiple of those of K", `${sizes.heads} and ${sizes.kvHeads}`);
  return sizes;
}

/** nonpad_kv_seqlen: how many keys of each batch entry count. */
function readLengths(call: Call, { batch, keys }: Sizes): Int32Array | undefined {
  const { fn, inputs } = call;
  if (inputs.nonpad_kv_seqlen === undefined) return undefined;
  if (inputs.past_key !== undefined || call.outputs?.has("present_key") || call.outputs?.has("present_value"))
    throw new TypeError(
      `${fn}: nonpad_kv_seqlen is for a cache outside, past and present for one inside; both are given`,
    );
  const { data, shape } = readIntegers(fn, "nonpad_kv_seqlen", inputs.nonpad_kv_seqlen);
  if (shape.length !== 1 || shape[0] !== batch)
    fail(fn, `nonpad_kv_seqlen must have shape [${batch}], one for each batch entry`, showShape(shape));
  const wrong = data.findIndex((n) => n < 0 || n > keys);
  if (wrong >= 0)
    fail(fn, `nonpad_kv_seqlen must be from 0 to the ${keys} keys`, `${data[wrong]} at ${wrong}`);
  return Int32Array.from(data);
}

/** Checks everything a call gives. */
export function readProblem(call: Call): Problem {
  const { fn, inputs } = call;
  const { q, k, v, isPacked } = readOperands(call);
  if ((inputs.past_key === undefined) !== (inputs.past_value === undefined)) {
    const given = inputs.past_key === undefined ? "past_value" : "past_key";
    throw new TypeError(`${fn}: past_key and past_value go together, got ${given} alone`);
  }
  const hasPast = inputs.past_key !== undefined;
  const pastKey = hasPast ? readPast(call, "past_key", k, isPacked) : undefined;
  const pastValue = hasPast ? readPast(call, "past_value", v, isPacked) : undefined;
  const past = pastKey?.shape[2] ?? 0;
  if (pastKey && pastValue)
    checkEqual(
      fn,
      "length of past_value must be that of past_key",
      pastValue.shape[2]!,
      pastValue.shape,
      past,
      pastKey.shape,
    );
  const sizes = readSizes(fn, q.shape, k.shape, v.shape, isPacked, past);
  const lengths = readLengths(call, sizes);
  checkPrecision(call, "softmax_precision");

  const { batch, heads, lq, keys, d } = sizes;
  const first = (x: Floats): Floats => (isPacked ? swapMiddle(x) : x);
  return {
    sizes,
    isPacked,
    layout: isPacked && !hasPast ? "blhd" : "bhld",
    // The past has its heads first, so beside one everything has.
    q: hasPast ? first(q) : q,
    k: pastKey ? concatLengths(pastKey, first(k)) : k,
    v: pastValue ? concatLengths(pastValue, first(v)) : v,
    hasPast,
    mask: readMask(
      call,
      [batch, heads, lq, keys],
      lengths ? lengths.reduce((most, n) => Math.max(most, n), 0) : 0,
    ),
    offsets: lengths ? lengths.map((n) => n - lq) : new Int32Array(batch).fill(past),
    lengths,
    isCausal: readBit(call, "is_causal", 0),
    window: [readInteger(call, "left_window_size", -1, -1), readInteger(call, "right_window_size", -1, -1)],
    scale: readFloat(call, "scale", 1 / Math.sqrt(d)),
    softcap: readSoftcap(call),
  };
}

function readSoftcap(call: Call): number {
  const softcap = readFloat(call, "softcap", 0);
  if (softcap < 0) fail(call.fn, "softcap must be positive, or 0 for none", String(softcap));
  return softcap;
}

/** The problem in the options of scaledDotProductAttention. */
export function coreOptions(problem: Problem): AttentionOptions & { returnLse?: false } {
  const { mask, offsets, lengths, isCausal, window, scale, softcap, layout } = problem;
  const hasWindow = window[0] >= 0 || window[1] >= 0;
  return {
    attnMask: mask as AttentionOptions["attnMask"],
    kvLengths: lengths,
    isCausal,
    ...(isCausal || hasWindow ? { queryOffset: offsets } : {}),
    ...(hasWindow ? { windowSize: window } : {}),
    scale,
    softcap,
    layout,
  };
}

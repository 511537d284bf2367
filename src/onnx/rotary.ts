// RotaryEmbedding of ai.onnx.
import { fail, sameShape, showShape } from "../shapes.ts";
import type { Shape, Tensor } from "../types/tensor.ts";
import { type Call, type Operator, readBit, readCall, readInteger } from "./schema.ts";
import { type Floats, readFloats, readIntegers, reshape } from "./tensors.ts";
import type { OnnxOptions, RotaryAttributes, RotaryInputs } from "./types.ts";

const ROTARY_EMBEDDING: Operator = {
  fn: "rotaryEmbedding",
  name: "RotaryEmbedding",
  versions: [
    {
      since: 23,
      attributes: ["opset", "interleaved", "num_heads", "rotary_embedding_dim"],
      inputs: ["X", "cos_cache", "sin_cache", "position_ids"],
      required: 3,
    },
  ],
  output: "Y",
};

/** X as [batch, heads, length, d] or, where its rank is 3, [batch, length, heads, d]. */
function readX(call: Call): { x: Floats; isPacked: boolean } {
  const { fn } = call;
  const x = readFloats(fn, "X", call.inputs.X);
  const heads = readInteger(call, "num_heads", 0, 0);
  if (x.shape.length === 4) {
    if (heads > 0 && heads !== x.shape[1])
      fail(fn, "num_heads must be the heads of X", `${heads} and ${showShape(x.shape)}`);
    return { x, isPacked: false };
  }
  if (x.shape.length !== 3) fail(fn, "X must have rank 4 or 3", showShape(x.shape));
  if (heads === 0)
    throw new TypeError(`${fn}: num_heads is required with X of rank 3, got X ${showShape(x.shape)}`);
  const [batch, length, width] = x.shape as [number, number, number];
  if (width % heads !== 0)
    fail(fn, "the last axis of X must be a multiple of num_heads", `${showShape(x.shape)} and ${heads}`);
  return { x: reshape(x, [batch, length, heads, width / heads]), isPacked: true };
}

/** How many elements of a row of d turn: an even number, in ONNX 0 for all. */
function readRotaryDim(call: Call, d: number): number {
  const dim = readInteger(call, "rotary_embedding_dim", 0, 0);
  const rotaryDim = dim === 0 ? d : dim;
  if (rotaryDim % 2 !== 0 || rotaryDim > d || rotaryDim === 0) {
    const rule = `rotary_embedding_dim, or the head size of X, must be even and at most the head size ${d}`;
    fail(call.fn, rule, String(rotaryDim));
  }
  return rotaryDim;
}

/** cos_cache or sin_cache: a row for each position where there are ids, else one for each token. */
function readCache(call: Call, name: string, tokens: Shape, half: number, hasIds: boolean): Floats {
  const cache = readFloats(call.fn, name, call.inputs[name]);
  const { shape } = cache;
  const fits = hasIds ? shape.length === 2 && shape[1] === half : sameShape(shape, [...tokens, half]);
  if (!fits) {
    const [form, when] = hasIds
      ? [`[positions, ${half}]`, "with"]
      : [showShape([...tokens, half]), "without"];
    fail(call.fn, `${name} must have shape ${form} ${when} position_ids`, showShape(shape));
  }
  return cache;
}

/** position_ids: a row of the caches for each token. */
function readIds(call: Call, tokens: Shape, positions: number): Int32Array {
  const { data, shape } = readIntegers(call.fn, "position_ids", call.inputs.position_ids);
  if (!sameShape(shape, tokens))
    fail(call.fn, `position_ids must have shape ${showShape(tokens)}`, showShape(shape));
  const wrong = data.findIndex((id) => id < 0 || id >= positions);
  if (wrong >= 0) {
    const rule = `position_ids must be from 0 to ${positions - 1}, the rows of cos_cache`;
    fail(call.fn, rule, `${data[wrong]} at ${wrong}`);
  }
  return Int32Array.from(data);
}

/**
 * RotaryEmbedding of ai.onnx, version 23: pairs (x1, x2) of each head turn by the angles whose cosines and sines the
 * caches hold. X is [B, heads, L, D] or, with num_heads, [B, L, heads * D]; Y has its shape.
 *
 * @throws {TypeError} for an unknown attribute or input, num_heads missing at rank 3, and data of a wrong type.
 * @throws {RangeError} for shapes that do not fit each other, and positions outside the caches.
 * @see https://onnx.ai/onnx/operators/onnx__RotaryEmbedding.html
 * @example
 * const { Y } = rotaryEmbedding({ num_heads: 8 }, { X, cos_cache, sin_cache, position_ids });
 */
export function rotaryEmbedding(
  attributes: RotaryAttributes,
  inputs: RotaryInputs,
  options?: OnnxOptions,
): { Y: Tensor } {
  const call = readCall(ROTARY_EMBEDDING, attributes, inputs, options);
  const { x, isPacked } = readX(call);
  const [batch, second, third, d] = x.shape as [number, number, number, number];
  const tokens = [batch, isPacked ? second : third];
  const rotaryDim = readRotaryDim(call, d);
  const hasIds = call.inputs.position_ids !== undefined;
  const cos = readCache(call, "cos_cache", tokens, rotaryDim / 2, hasIds);
  const sin = readCache(call, "sin_cache", tokens, rotaryDim / 2, hasIds);
  if (!sameShape(cos.shape, sin.shape)) {
    fail(call.fn, `sin_cache must have the shape of cos_cache ${showShape(cos.shape)}`, showShape(sin.shape));
  }
  const { data } = call.runtime.rotaryEmbedding(x, cos, sin, {
    positionIds: hasIds ? readIds(call, tokens, cos.shape[0]!) : undefined,
    interleaved: readBit(call, "interleaved", 0),
    rotaryDim,
    layout: isPacked ? "blhd" : "bhld",
  });
  return { Y: { data, shape: isPacked ? [batch, second, third * d] : [...x.shape] } };
}

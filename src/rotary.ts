// rotaryEmbedding, and the tables of cosines and sines it takes.
import { narrowed, readRotation, rotate, stageTurns, turnBytes } from "./rotary-problem.ts";
import { describe, MAX_AXIS, readOptions } from "./shapes.ts";
import { type Core, checkAlias, Result, readOperand, readOut, reserve } from "./tensor.ts";
import type { RotaryOptions, RotaryTables, RotaryTablesOptions, Tensor, TensorLike } from "./types.ts";

const FN = "rotaryEmbedding";
const OPTIONS: ReadonlySet<string> = new Set([
  "positionIds",
  "positionOffset",
  "interleaved",
  "rotaryDim",
  "layout",
  "out",
]);
const TABLES_FN = "rotaryTables";
const TABLES_OPTIONS: ReadonlySet<string> = new Set(["base", "offset"]);

function checkTableSizes(length: number, rotaryDim: number, base: number, offset: number): void {
  if (!Number.isInteger(length) || length < 0 || length > MAX_AXIS) {
    throw new (typeof length === "number" ? RangeError : TypeError)(
      `${TABLES_FN}: length must be an integer from 0 to ${MAX_AXIS}, got ${describe(length)}`,
    );
  }
  if (!Number.isInteger(rotaryDim) || rotaryDim % 2 !== 0 || rotaryDim < 2 || rotaryDim > MAX_AXIS) {
    throw new (typeof rotaryDim === "number" ? RangeError : TypeError)(
      `${TABLES_FN}: rotaryDim must be an even integer from 2 to ${MAX_AXIS}, got ${describe(rotaryDim)}`,
    );
  }
  if (typeof base !== "number" || !(base > 0 && base < Infinity)) {
    throw new (typeof base === "number" ? RangeError : TypeError)(
      `${TABLES_FN}: base must be a positive number, got ${describe(base)}`,
    );
  }
  if (!Number.isSafeInteger(offset)) {
    throw new (typeof offset === "number" ? RangeError : TypeError)(
      `${TABLES_FN}: offset must be an integer, got ${describe(offset)}`,
    );
  }
}

export function rotaryEmbedding(
  core: Core,
  value: TensorLike,
  cosine: TensorLike,
  sine: TensorLike,
  given: RotaryOptions = {},
): Tensor {
  const options = readOptions(FN, given, OPTIONS);
  const x = readOperand(core, FN, "x", value);
  const rotation = readRotation(core, FN, x.shape, cosine, sine, options);
  const { cos, sin } = rotation;
  const out = readOut(core, FN, options.out, x.shape);
  checkAlias(FN, out, "x", x, true);
  checkAlias(FN, out, "cos", cos);
  checkAlias(FN, out, "sin", sin);
  const resident = x.resident && cos.resident && sin.resident;
  const result = new Result(core, FN, [...x.shape], out, options.out, resident);
  if (x.size === 0) return result.finish(0);
  const inUse = narrowed(rotation);
  reserve(core, FN, core.memory.stagedBytes(x) + turnBytes(core, inUse) + result.stagedBytes, result);
  const from = core.memory.stageOperand(x);
  const to = result.stage();
  rotate(core, inUse, rotation.rows.heads, stageTurns(core, inUse), from, to);
  return result.finish(to);
}

/**
 * Cosines and sines of positions offset .. offset + length - 1, each [length, rotaryDim / 2]: the angle of pair j at
 * position p is p * base ** (-2 j / rotaryDim), computed in float64.
 */
export function rotaryTables(
  length: number,
  rotaryDim: number,
  given: RotaryTablesOptions = {},
): RotaryTables {
  const { base = 10000, offset = 0 } = readOptions(TABLES_FN, given, TABLES_OPTIONS);
  checkTableSizes(length, rotaryDim, base, offset);
  const half = rotaryDim / 2;
  const frequencies = Float64Array.from({ length: half }, (_, j) => base ** ((-2 * j) / rotaryDim));
  const cos = new Float32Array(length * half);
  const sin = new Float32Array(length * half);
  for (let i = 0; i < length; i++) {
    for (let j = 0; j < half; j++) {
      const angle = (offset + i) * frequencies[j]!;
      cos[i * half + j] = Math.cos(angle);
      sin[i * half + j] = Math.sin(angle);
    }
  }
  return { cos: { data: cos, shape: [length, half] }, sin: { data: sin, shape: [length, half] } };
}

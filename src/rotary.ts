// rotaryEmbedding, and the tables of cosines and sines it takes.
import { MAX_MEMORY_BYTES } from "./memory.ts";
import { Result, reserve } from "./result.ts";
import { narrowed, readRotation, rotate, stageTurns, turnBytes } from "./rotary-problem.ts";
import { fail, MAX_AXIS, NONE, readInteger, readOptions, readPositive } from "./shapes.ts";
import { type Core, checkAlias, readOperand, readOut } from "./tensor.ts";
import type { RotaryOptions, RotaryTables, RotaryTablesOptions } from "./types/layers.ts";
import type { Tensor, TensorLike } from "./types/tensor.ts";

const FN = "rotaryEmbedding";
const OPTIONS: ReadonlySet<keyof RotaryOptions> = new Set([
  "positionIds",
  "positionOffset",
  "interleaved",
  "rotaryDim",
  "layout",
  "out",
]);
const TABLES_FN = "rotaryTables";
const TABLES_OPTIONS: ReadonlySet<keyof RotaryTablesOptions> = new Set(["base", "offset"]);

function checkTableSizes(length: number, rotaryDim: number, base: number, offset: number): void {
  readInteger(TABLES_FN, "length", length, 0, MAX_AXIS);
  readInteger(TABLES_FN, "rotaryDim", rotaryDim, 2, MAX_AXIS);
  if (rotaryDim % 2 !== 0) fail(TABLES_FN, "rotaryDim must be even", String(rotaryDim));
  if (readPositive(TABLES_FN, "base", base) === Infinity)
    fail(TABLES_FN, "base must be finite", String(base));
  readInteger(TABLES_FN, "offset", offset, -Number.MAX_SAFE_INTEGER, Number.MAX_SAFE_INTEGER);
  const size = (length * rotaryDim) / 2;
  if (size * 4 > MAX_MEMORY_BYTES) {
    const rule = `a table of length * rotaryDim / 2 numbers must fit in ${MAX_MEMORY_BYTES} bytes, the most of a Wasm memory`;
    fail(TABLES_FN, rule, `${size * 4}: length ${length}, rotaryDim ${rotaryDim}`);
  }
}

export function rotaryEmbedding(
  core: Core,
  value: TensorLike,
  cosine: TensorLike,
  sine: TensorLike,
  given: RotaryOptions = NONE,
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
  const result = new Result(core, FN, x.shape, out, options.out, resident);
  if (x.size === 0) return result.finish(0);
  const inUse = narrowed(rotation);
  reserve(core, FN, core.memory.stagedBytes(x) + turnBytes(core, inUse) + result.stagedBytes(), [result]);
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
  given: RotaryTablesOptions = NONE,
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

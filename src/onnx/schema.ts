// What an operator takes, by version, and the reading of one call: attributes, inputs and options by name.
import { defaultRuntime } from "../functions/default-runtime.ts";
import { Runtime } from "../runtime.ts";
import { readInteger as checkInteger, describe, NONE, readNumber, readOptions } from "../shapes.ts";
import type { OnnxOptions } from "./types.ts";

/** Newest version of the ONNX operator set whose operators these are; a later one may give them another meaning. */
const NEWEST_OPSET = 27;

/** An operator from the operator set on that brought this version of it. */
export interface Version {
  readonly since: number;
  /** opset among them, which stands with the model in ONNX. */
  readonly attributes: readonly string[];
  readonly inputs: readonly string[];
  /** How many of the inputs, counted from the first, must be given. */
  readonly required: number;
}

/** An operator: its function here, its name in ONNX, its versions in ascending order, its outputs. */
export interface Operator {
  readonly fn: string;
  readonly name: string;
  readonly versions: readonly Version[];
  /** Outputs that are given only where `options.outputs` names them. */
  readonly optional?: readonly string[];
  /** The first output, which there always is. */
  readonly output: string;
}

/** One call, its names checked and each read once; the values are as they came. */
export interface Call {
  readonly fn: string;
  /** Operator and version for messages, as "Attention-25". */
  readonly schema: string;
  readonly since: number;
  readonly attributes: Readonly<Record<string, unknown>>;
  readonly inputs: Readonly<Record<string, unknown>>;
  readonly runtime: Runtime;
  /** The outputs asked for, or undefined where that is left to the operator. */
  readonly outputs: ReadonlySet<string> | undefined;
}

const OPTIONS: ReadonlySet<"outputs" | "runtime"> = new Set(["outputs", "runtime"]);

/** The version of the operator in the operator set that the call names. */
function versionFor({ fn, name, versions }: Operator, opset: unknown = NEWEST_OPSET): Version {
  const oldest = versions[0]!.since;
  const read = checkInteger(fn, `opset of ${name}`, opset, oldest, NEWEST_OPSET);
  return versions.filter(({ since }) => since <= read).at(-1)!;
}

/** An object's values by the names that the schema knows; what is undefined counts as absent. */
function readNames(
  fn: string,
  kind: "attribute" | "input",
  given: unknown,
  known: readonly string[],
  schema: string,
): Record<string, unknown> {
  if (typeof given !== "object" || given === null) {
    throw new TypeError(`${fn}: ${kind}s must be an object, got ${describe(given)}`);
  }
  for (const [name, value] of Object.entries(given)) {
    if (value === undefined || known.includes(name)) continue;
    throw new TypeError(`${fn}: unknown ${kind} "${name}"; ${schema} has ${known.join(", ")}`);
  }
  const read: Record<string, unknown> = {};
  for (const name of known) {
    const value = (given as Record<string, unknown>)[name];
    // null is how many hold an optional input that a node leaves out
    if (value !== undefined && !(kind === "input" && value === null)) read[name] = value;
  }
  return read;
}

function readOutputs({ fn, output, optional = [] }: Operator, outputs: unknown): Call["outputs"] {
  if (outputs === undefined) return undefined;
  const known = [output, ...optional];
  if (!Array.isArray(outputs)) {
    throw new TypeError(`${fn}: outputs must be an array of ${known.join(", ")}, got ${describe(outputs)}`);
  }
  const unknown = outputs.find((name) => !known.includes(name));
  if (unknown !== undefined) {
    throw new TypeError(`${fn}: unknown output ${describe(unknown)}; there are ${known.join(", ")}`);
  }
  return new Set(outputs);
}

/** Checks the names of everything that a call gives. */
export function readCall(
  operator: Operator,
  attributes: object,
  inputs: object,
  given: OnnxOptions & { readonly outputs?: readonly string[] | undefined } = NONE,
): Call {
  const { fn, name } = operator;
  const opset = (attributes as { opset?: unknown } | null)?.opset;
  const version = versionFor(operator, opset);
  const schema = `${name}-${version.since}`;
  const options = readOptions(fn, given, OPTIONS);
  if (options.runtime !== undefined && !(options.runtime instanceof Runtime)) {
    throw new TypeError(`${fn}: runtime must be a Runtime, got ${describe(options.runtime)}`);
  }
  const read = readNames(fn, "input", inputs, version.inputs, schema);
  for (const input of version.inputs.slice(0, version.required)) {
    if (read[input] === undefined) throw new TypeError(`${fn}: input ${input} is required by ${schema}`);
  }
  return {
    fn,
    schema,
    since: version.since,
    attributes: readNames(fn, "attribute", attributes, version.attributes, schema),
    inputs: read,
    runtime: options.runtime ?? defaultRuntime(),
    outputs: readOutputs(operator, options.outputs),
  };
}

/** The integer attribute within its bounds, or the default where it is absent. */
export function readInteger<Default>(
  { fn, schema, attributes }: Call,
  name: string,
  fallback: Default,
  min: number,
  max?: number,
): number | Default {
  const value = attributes[name];
  if (value === undefined) return fallback;
  return checkInteger(fn, `${name} of ${schema}`, value, min, max);
}

/** An attribute that is 1 or 0, ONNX's form of true and false. */
export function readBit(call: Call, name: string, fallback: 0 | 1): boolean {
  return readInteger(call, name, fallback, 0, 1) === 1;
}

/** The float attribute, which is a float32 in ONNX, or the default where it is absent. */
export function readFloat<Default>(
  { fn, schema, attributes }: Call,
  name: string,
  fallback: Default,
): number | Default {
  const value = attributes[name];
  return value === undefined ? fallback : Math.fround(readNumber(fn, `${name} of ${schema}`, value, NaN));
}

/** Precision of a step inside an operator, by ONNX's numbers of types: those that float32 is at least as exact as. */
export function checkPrecision(call: Call, name: string): void {
  const precision = readInteger(call, name, 1, 0);
  if (precision === 1 || precision === 10 || precision === 16) return;
  throw new RangeError(
    `${call.fn}: ${name} must be 1, 10 or 16 (float32, float16, bfloat16), all computed in float32; ` +
      `float64 is not computed, got ${precision}`,
  );
}

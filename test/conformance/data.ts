import { existsSync, readdirSync, readFileSync } from "node:fs";
import { dirname, join } from "node:path";
import { fileURLToPath } from "node:url";
import type { RefTensor } from "../reference/rounding.ts";

/** A tensor of a case file, its values as the file's own type has them. */
export interface CaseTensor extends RefTensor {
  readonly dtype: "float32" | "float16" | "float64" | "int64" | "bool";
  readonly data: Float64Array;
  readonly shape: readonly number[];
}

/** One file: ONNX cases carry `attributes`, golden ones `config`. */
export interface CaseFile {
  readonly name: string;
  readonly op: string;
  /** Operator set of an ONNX case. */
  readonly opset?: number;
  readonly attributes?: Record<string, unknown>;
  readonly config?: Record<string, unknown>;
  /** What a golden case is about. */
  readonly features?: readonly string[];
  readonly inputs: Record<string, CaseTensor>;
  readonly outputs: Record<string, CaseTensor>;
}

const root = fileURLToPath(new URL("../..", import.meta.url));
/** The cases are no part of the project: they lie in a directory shared/conformance beside it, or where this says. */
const shared = process.env.CONFORMANCE_DIR ?? join(dirname(root), "shared", "conformance");
const committed = join(root, "test/fixtures/golden");

export const onnxDirectory = join(shared, "onnx");
export const hasOnnx = existsSync(onnxDirectory);
export const goldenDirectory = existsSync(join(shared, "golden")) ? join(shared, "golden") : committed;

export const onnxFiles = (): CaseFile[] => (hasOnnx ? readCases(onnxDirectory) : []);
export const goldenFiles = (): CaseFile[] => readCases(goldenDirectory);

function readCases(directory: string): CaseFile[] {
  const files = readdirSync(directory).filter((file) => file.endsWith(".json"));
  return files.sort().map((file) => {
    const raw = JSON.parse(readFileSync(join(directory, file), "utf8"));
    return { ...raw, inputs: mapValues(raw.inputs, decode), outputs: mapValues(raw.outputs, decode) };
  });
}

const mapValues = <A, B>(record: Record<string, A>, f: (value: A) => B): Record<string, B> =>
  Object.fromEntries(Object.entries(record).map(([name, value]) => [name, f(value)]));

interface RawTensor {
  dtype: CaseTensor["dtype"];
  dims: number[];
  data: (number | boolean | string)[];
}

/** Non-finite values are strings; float32 and float16 are the shortest decimals that round-trip. */
function decode({ dtype, dims, data }: RawTensor): CaseTensor {
  const round = dtype === "float32" || dtype === "float16" ? Math.fround : (x: number) => x;
  const values = Float64Array.from(data, (x) => round(Number(x)));
  const size = dims.reduce((product, n) => product * n, 1);
  if (values.length !== size) throw new Error(`a tensor of shape [${dims}] has ${values.length} values`);
  if (!["float32", "float16", "float64", "int64", "bool"].includes(dtype)) throw new Error(`dtype ${dtype}`);
  return { dtype, shape: dims, data: values };
}

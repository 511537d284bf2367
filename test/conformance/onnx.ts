import type { TestTensor } from "../reference/random.ts";
import type { RefRotaryOptions } from "../reference/rotary.ts";
import { type Case, expectKnown, input, makeCase } from "./case.ts";
import type { CaseFile } from "./data.ts";
import { onnxAttention } from "./onnx-attention.ts";

/** Operators of the data that are not operations of this package. */
const outside = ["CausalConvWithState", "FlexAttention", "LinearAttention"];

/** Reads an ONNX case of any operator; absent attributes take the operator's default. */
export function onnxCase(file: CaseFile): Case {
  if (outside.includes(file.op)) return outsideCase(file);
  const adapter = adapters[file.op];
  if (!adapter) throw new Error(`${file.name}: unknown operator ${file.op}`);
  return adapter(file);
}

const adapters: Record<string, (file: CaseFile) => Case> = {
  Attention: onnxAttention,

  Softmax(file) {
    const axis = softmaxAxis(file);
    const compute: Case["compute"] = (engine, [x]) => ({ output: engine.softmax(x as TestTensor, axis) });
    return makeCase("onnx", file, { operands: [input(file, "input")], compute });
  },

  LogSoftmax(file) {
    const axis = softmaxAxis(file);
    const compute: Case["compute"] = (engine, [x]) => ({ output: engine.logSoftmax(x as TestTensor, axis) });
    return makeCase("onnx", file, { operands: [input(file, "input")], compute });
  },

  ReduceLogSumExp(file) {
    known(file, ["data", "axes"], ["keepdims"]);
    // Some of these hold float64 data, which goes in rounded to float32.
    const data = input(file, "data");
    const axes = [...(file.inputs.axes?.data ?? [])];
    // No axes mean all of them, unless noop_with_empty_axes says otherwise, which no case does.
    if (axes.length === 0) axes.push(...data.shape.keys());
    const keepDims = (file.attributes?.keepdims ?? 1) === 1;
    const compute: Case["compute"] = (engine, [x]) => ({
      reduced: engine.logSumExp(x as TestTensor, axes, keepDims),
    });
    return makeCase("onnx", file, { operands: [data], compute });
  },

  LayerNormalization(file) {
    known(file, ["X", "Scale", "B"], ["axis", "epsilon"]);
    const compute: Case["compute"] = (engine, [x, weight, bias]) => {
      const options = { weight: weight as TestTensor, bias: bias as TestTensor, ...normOptions(file) };
      const { out, mean, rstd } = engine.layerNorm(x as TestTensor, options);
      return { Y: out, Mean: mean, InvStdDev: rstd };
    };
    const operands = [input(file, "X"), input(file, "Scale"), input(file, "B")];
    return makeCase("onnx", file, { operands, compute });
  },

  RMSNormalization(file) {
    known(file, ["X", "scale"], ["axis", "epsilon"]);
    const compute: Case["compute"] = (engine, [x, weight]) => ({
      Y: engine.rmsNorm(x as TestTensor, { weight: weight as TestTensor, ...normOptions(file) }),
    });
    return makeCase("onnx", file, { operands: [input(file, "X"), input(file, "scale")], compute });
  },

  RotaryEmbedding(file) {
    const attributes = ["interleaved", "num_heads", "rotary_embedding_dim"];
    known(file, ["X", "cos_cache", "sin_cache", "position_ids"], attributes);
    const [x, cos, sin] = [input(file, "X"), input(file, "cos_cache"), input(file, "sin_cache")];
    const given = (file.attributes ?? {}) as Record<string, number>;
    const { interleaved = 0, num_heads: heads = 0, rotary_embedding_dim: rotaryDim = 0 } = given;
    const ids = file.inputs.position_ids;
    // Rank 3 is [batch, length, heads * headDim], read in place as the layout "blhd".
    const [batch = 0, length = 0, width = 0] = x.shape;
    const isFlat = x.shape.length === 3;
    const shape = isFlat ? [batch, length, heads, width / heads] : x.shape;
    const options: RefRotaryOptions = {
      ...(isFlat && { layout: "blhd" as const }),
      ...(interleaved === 1 && { interleaved: true }),
      ...(rotaryDim > 0 && { rotaryDim }),
      ...(ids && { positionIds: Int32Array.from(ids.data) }),
    };
    const compute: Case["compute"] = (engine, [t, c, s]) => {
      const turned = { data: (t as TestTensor).data, shape };
      const { data } = engine.rotaryEmbedding(turned, c as TestTensor, s as TestTensor, options);
      return { Y: { data, shape: x.shape } };
    };
    return makeCase("onnx", file, { operands: [x, cos, sin], compute });
  },

  MatMul(file) {
    known(file, ["A", "B"], []);
    const compute: Case["compute"] = (engine, [a, b]) => ({
      Y: engine.matmul(a as TestTensor, b as TestTensor, {}),
    });
    return makeCase("onnx", file, { operands: [input(file, "A"), input(file, "B")], compute });
  },

  Gemm(file) {
    known(file, ["A", "B", "C"], ["alpha", "beta", "transA", "transB"]);
    const { alpha = 1, beta = 1, transA = 0, transB = 0 } = (file.attributes ?? {}) as Record<string, number>;
    const options = { alpha: Math.fround(alpha), transposeA: transA === 1, transposeB: transB === 1 };
    const operands = Object.keys(file.inputs).map((name) => input(file, name));
    const compute: Case["compute"] = (engine, [a, b, c]) => ({
      Y: engine.matmul(
        a as TestTensor,
        b as TestTensor,
        c ? { ...options, c, beta: Math.fround(beta) } : options,
      ),
    });
    return makeCase("onnx", file, { operands, compute });
  },
};

function normOptions(file: CaseFile): { axis: number; eps: number } {
  const { axis = -1, epsilon = 1e-5 } = (file.attributes ?? {}) as Record<string, number>;
  return { axis, eps: epsilon };
}

function softmaxAxis(file: CaseFile): number {
  known(file, ["input"], ["axis"]);
  return (file.attributes?.axis ?? -1) as number;
}

function known(file: CaseFile, inputs: string[], attributes: string[]): void {
  expectKnown(file, "inputs", Object.keys(file.inputs), inputs);
  expectKnown(file, "attributes", Object.keys(file.attributes ?? {}), attributes);
}

function outsideCase(file: CaseFile): Case {
  const compute = (): never => {
    throw new Error(`${file.op} is not an operation of this package`);
  };
  return makeCase("onnx", file, { features: [`operation ${file.op}`], operands: [], compute });
}

import { type Case, input, makeCase } from "./case.ts";
import type { CaseFile, CaseTensor } from "./data.ts";
import type { Inputs } from "./stored.ts";

/** Operators of the data that are not operations of this package. */
const outside = ["CausalConvWithState", "FlexAttention", "LinearAttention"];

/** Inputs that say who attends and what counts: moving them makes another problem. */
const isFloat = ({ dtype }: CaseTensor): boolean => dtype.startsWith("float");

/** Reads an ONNX case: attributes and inputs go to the engine by the names they have. */
export function onnxCase(file: CaseFile): Case {
  const features = outside.includes(file.op) ? [`operation ${file.op}`] : [];
  const names = Object.keys(file.inputs).filter((name) => isFloat(file.inputs[name] as CaseTensor));
  const attributes = { ...file.attributes, opset: file.opset } as Record<string, number>;
  return makeCase("onnx", file, {
    features,
    // Some hold float64 data, which goes in rounded to float32.
    operands: features.length > 0 ? [] : names.map((name) => input(file, name)),
    compute: (engine, operands) => {
      const moved: Inputs = Object.fromEntries(
        Object.entries(file.inputs).map(([name, tensor]) => {
          const operand = operands[names.indexOf(name)];
          return [name, { dtype: tensor.dtype, ...(operand ?? tensor) }];
        }),
      );
      return engine.onnx(file.op, attributes, moved, Object.keys(file.outputs));
    },
  });
}

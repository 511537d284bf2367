import type { ResidentTensor, Runtime, TensorLike } from "wasm-attention";
import { type RowsCase, rowsCases } from "./cases.ts";
import { type Candidate, type Context, runSuite } from "./suite.ts";

/** What stands between the products: norms, activation, rotary embedding, all bound by reading and writing. */
export async function layersBench(context: Context): Promise<void> {
  await runSuite("layers", rowsCases, context, rowsCandidates);
}

/** Copied: typed arrays in, a typed array out. Resident: all tensors stay in Wasm memory. */
function rowsCandidates(c: RowsCase, inputs: readonly Float32Array[], runtime: Runtime): Candidate[] {
  const shape = [c.rows, c.columns];
  const others = c.operation === "rotaryEmbedding" ? [c.rows, c.columns / 2] : [c.columns];
  const tensors = inputs.map((data, i) => ({ data, shape: i === 0 ? shape : others }));
  const residents = tensors.map(({ data, shape: own }) => runtime.tensor(own, data));
  const out = runtime.tensor(shape);
  return [
    { how: "copied", run: () => apply(runtime, c.operation, tensors) },
    {
      how: "resident",
      run: () => apply(runtime, c.operation, residents, out),
      dispose: () => {
        for (const tensor of [...residents, out]) tensor.dispose();
      },
    },
  ];
}

function apply(
  runtime: Runtime,
  operation: RowsCase["operation"],
  tensors: readonly TensorLike[],
  out?: ResidentTensor,
): { readonly data: Float32Array } {
  const [x, second, third] = tensors as [TensorLike, TensorLike, TensorLike];
  switch (operation) {
    case "layerNorm":
      return runtime.layerNorm(x, { weight: second, bias: third, out });
    case "rmsNorm":
      return runtime.rmsNorm(x, { weight: second, out });
    case "gelu":
      return runtime.gelu(x, { out });
    case "rotaryEmbedding":
      return runtime.rotaryEmbedding(x, second, third, { out });
  }
}

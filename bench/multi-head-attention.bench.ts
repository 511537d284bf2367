import type { Runtime } from "wasm-attention";
import { type MultiHeadCase, multiHeadCases } from "./cases.ts";
import { type Candidate, type Context, runSuite } from "./suite.ts";

/** Attention between its projections, in one call. */
export async function multiHeadBench(context: Context): Promise<void> {
  await runSuite("multi-head attention", multiHeadCases, context, multiHeadCandidates);
}

/** Copied: typed arrays in, the weights among them, a typed array out. Resident: all stay in Wasm memory. */
function multiHeadCandidates(
  { tokens, width, numHeads, weightLayout }: MultiHeadCase,
  inputs: readonly Float32Array[],
  runtime: Runtime,
): Candidate[] {
  const [data, inProj, outProj] = inputs as [Float32Array, Float32Array, Float32Array];
  const isOi = weightLayout === "oi";
  const x = { data, shape: [1, tokens, width] };
  const inProjWeight = { data: inProj, shape: isOi ? [3 * width, width] : [width, 3 * width] };
  const outProjWeight = { data: outProj, shape: [width, width] };
  const options = { numHeads, weightLayout, inProjWeight, outProjWeight };

  const residents = [
    runtime.tensor(x.shape, data),
    runtime.tensor(inProjWeight.shape, inProj),
    runtime.tensor(outProjWeight.shape, outProj),
    runtime.tensor(x.shape),
  ] as const;
  const [residentX, residentIn, residentOut, out] = residents;
  const residentOptions = { ...options, inProjWeight: residentIn, outProjWeight: residentOut, out };

  return [
    { how: "copied", run: () => runtime.multiHeadAttention(x, options) },
    {
      how: "resident",
      run: () => runtime.multiHeadAttention(residentX, residentOptions),
      dispose: () => {
        for (const tensor of residents) tensor.dispose();
      },
    },
  ];
}

import type { Runtime } from "wasm-attention";
import { type SoftmaxCase, softmaxCases } from "./cases.ts";
import { type Candidate, type Context, runSuite } from "./suite.ts";

/** Softmax along rows that fit a cache and rows that do not, and down columns. */
export async function softmaxBench(context: Context): Promise<void> {
  await runSuite("softmax", softmaxCases, context, softmaxCandidates);
}

/** Copied: a typed array in, a new one out, or with `out` one that is there. Resident: both stay in Wasm memory. */
export function softmaxCandidates(
  c: SoftmaxCase,
  inputs: readonly Float32Array[],
  runtime: Runtime,
): Candidate[] {
  const shape = [c.rows, c.columns];
  const [data] = inputs as [Float32Array];
  const x = { data, shape };
  const options = { axis: c.axis };
  const plainOptions = { axis: c.axis, out: { data: new Float32Array(data.length), shape } };

  const residentX = runtime.tensor(shape, data);
  const out = runtime.tensor(shape);
  const residentOptions = { axis: c.axis, out };

  return [
    { how: "copied", run: () => runtime.softmax(x, options) },
    { how: "copied, out", run: () => runtime.softmax(x, plainOptions) },
    {
      how: "resident",
      run: () => runtime.softmax(residentX, residentOptions),
      dispose: () => {
        for (const tensor of [residentX, out]) tensor.dispose();
      },
    },
  ];
}

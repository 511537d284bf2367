import type { Runtime } from "wasm-attention";
import { type MatmulCase, matmulCases } from "./cases.ts";
import { type Candidate, type Context, runSuite } from "./suite.ts";

/** Matrix products: square, transposed, oblong, matrix-vector, odd. */
export async function gemmBench(context: Context): Promise<void> {
  await runSuite("matmul", matmulCases, context, matmulCandidates);
}

/** Copied: typed arrays in, a new one out, or with `out` one that is there. Resident: all three in Wasm memory. */
export function matmulCandidates(
  c: MatmulCase,
  inputs: readonly Float32Array[],
  runtime: Runtime,
): Candidate[] {
  const { m, n, k, transposeB } = c;
  const [left, right] = inputs as [Float32Array, Float32Array];
  const a = { data: left, shape: [m, k] };
  const b = { data: right, shape: transposeB ? [n, k] : [k, n] };
  const options = { transposeB };
  const plainOptions = { transposeB, out: { data: new Float32Array(m * n), shape: [m, n] } };

  const residentA = runtime.tensor(a.shape, left);
  const residentB = runtime.tensor(b.shape, right);
  const out = runtime.tensor([m, n]);
  const residentOptions = { transposeB, out };

  return [
    { how: "copied", run: () => runtime.matmul(a, b, options) },
    { how: "copied, out", run: () => runtime.matmul(a, b, plainOptions) },
    {
      how: "resident",
      run: () => runtime.matmul(residentA, residentB, residentOptions),
      dispose: () => {
        for (const tensor of [residentA, residentB, out]) tensor.dispose();
      },
    },
  ];
}

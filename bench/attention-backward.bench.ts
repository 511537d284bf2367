import type { ResidentTensor, Runtime } from "wasm-attention";
import { type BackwardCase, backwardCases } from "./cases.ts";
import { label } from "./facts.ts";
import { type Candidate, type Context, runSuite } from "./suite.ts";

/** The gradients of attention, given the output and the log-sum-exp of the forward. */
export async function backwardBench(context: Context): Promise<void> {
  await runSuite("backward", backwardCases, context, backwardCandidates);
}

/** Copied: typed arrays in and out. Resident: all operands stay in Wasm memory, gradients are made there. */
function backwardCandidates(c: BackwardCase, inputs: readonly Float32Array[], runtime: Runtime): Candidate[] {
  const queryShape = [c.batchSize, c.numHeads, c.seqLenQ, c.headDim];
  const keyShape = [c.batchSize, c.numKvHeads, c.seqLenK, c.headDim];
  const [q, k, v, d] = inputs as [Float32Array, Float32Array, Float32Array, Float32Array];
  const query = { data: q, shape: queryShape };
  const key = { data: k, shape: keyShape };
  const value = { data: v, shape: keyShape };
  const dOut = { data: d, shape: queryShape };
  const { isCausal } = c;
  const { out, lse } = runtime.scaledDotProductAttention(query, key, value, { isCausal, returnLse: true });
  const operands = { query, key, value, dOut, out, lse };
  const gradients = runtime.scaledDotProductAttentionBackward({ ...operands, isCausal });
  checkSums(c, operands, gradients);

  const residents = Object.fromEntries(
    Object.entries(operands).map(([name, { data, shape }]) => [name, runtime.tensor(shape, data)]),
  ) as Record<keyof typeof operands, ResidentTensor>;
  let last: ResidentTensor | undefined;
  return [
    {
      how: "copied",
      run: () => runtime.scaledDotProductAttentionBackward({ ...operands, isCausal }).dQuery,
    },
    {
      how: "resident",
      run: () => {
        last?.dispose();
        const { dQuery, dKey, dValue } = runtime.scaledDotProductAttentionBackward({
          ...residents,
          isCausal,
        });
        dKey.dispose();
        dValue.dispose();
        last = dQuery; // its data is read after the call, by verify
        return dQuery;
      },
      dispose: () => {
        last?.dispose();
        for (const tensor of Object.values(residents)) tensor.dispose();
      },
    },
  ];
}

interface Values {
  data: Float32Array;
}

/**
 * verify holds rows of dQuery to the reference; a row of dKey or dValue would need every query. These are held by what
 * they must sum to: sum(dKey * key) = sum(dQuery * query), both the sum of dS * S, and sum(dValue * value) =
 * sum(dOut * out), both the sum of P * dP.
 */
function checkSums(
  c: BackwardCase,
  operands: Record<"query" | "key" | "value" | "dOut" | "out", Values>,
  gradients: Record<"dQuery" | "dKey" | "dValue", Values>,
): void {
  const sums = [
    product(gradients.dKey, operands.key),
    product(gradients.dQuery, operands.query),
    product(gradients.dValue, operands.value),
    product(operands.dOut, operands.out),
  ] as const;
  for (const [a, b] of [sums.slice(0, 2), sums.slice(2)] as [Product, Product][]) {
    if (!(Math.abs(a.sum - b.sum) <= 1e-6 * (a.size + b.size))) {
      throw new Error(`${label(c)}: wrong, sums that must be equal are ${a.sum} and ${b.sum}`);
    }
  }
}

interface Product {
  sum: number;
  /** The same with every term positive: what roundings are relative to. */
  size: number;
}

function product(x: Values, y: Values): Product {
  const result = { sum: 0, size: 0 };
  x.data.forEach((value, i) => {
    const term = value * (y.data[i] as number);
    result.sum += term;
    result.size += Math.abs(term);
  });
  return result;
}

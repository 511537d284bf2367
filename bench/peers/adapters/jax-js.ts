import { defaultDevice, init, type Array as JaxArray, jit, nn, numpy as np } from "@jax-js/jax";
import type { AttentionCase } from "../../cases.ts";
import { exchangeAxes, type Operation, type Peer, type Place, packageName } from "../peer.ts";

/** jax-js: WebAssembly that it generates while it runs, one kernel for each operation, kept by jit. */
const peer: Peer = {
  name: packageName("@jax-js/jax"),
  async load() {
    await init("wasm");
    defaultDevice("wasm");
  },
  prepare(work, inputs, place) {
    switch (work.operation) {
      case "attention":
        return attention(work, inputs, place);
      case "matmul": {
        const shapes = [
          [work.m, work.k],
          [work.k, work.n],
        ];
        return operationOf((a, b) => np.matmul(a as JaxArray, b as JaxArray), inputs, shapes, place);
      }
      case "softmax":
        return operationOf((x) => nn.softmax(x as JaxArray, -1), inputs, [[work.rows, work.columns]], place);
      case "sentences":
        return undefined;
    }
  },
};

/** Its axes are [batch, length, heads, headDim]: the operands are put in that order before anything is timed. */
function attention(c: AttentionCase, inputs: readonly Float32Array[], place: Place): Operation {
  const { batchSize, numHeads, isCausal } = c;
  const lengths = [c.seqLenQ, c.seqLenK, c.seqLenK];
  const shapes = lengths.map((length) => [batchSize, length, numHeads, c.headDim]);
  const operands = inputs.map((data, i) =>
    exchangeAxes(data, [batchSize, numHeads, lengths[i] as number, c.headDim]),
  );
  const compute = (...[q, k, v]: JaxArray[]) =>
    nn.dotProductAttention(q as JaxArray, k as JaxArray, v as JaxArray, { isCausal });
  const operation = operationOf(compute, operands, shapes, place);
  return {
    ...operation,
    result: async () => exchangeAxes(await operation.result(), [batchSize, c.seqLenQ, numHeads, c.headDim]),
  };
}

/** A call uses its operands up; `ref` keeps them for the next. */
function operationOf(
  compute: (...operands: JaxArray[]) => JaxArray,
  inputs: readonly Float32Array[],
  shapes: readonly number[][],
  place: Place,
): Operation & { result(): Float32Array } {
  const compiled = jit(compute);
  const placed = () =>
    inputs.map((data, i) => np.array(data as Float32Array<ArrayBuffer>).reshape(shapes[i] as number[]));
  if (place === "copied") {
    const run = () => compiled(...placed()).dataSync() as Float32Array;
    return { run, result: run, dispose: () => compiled.dispose() };
  }

  const operands = placed();
  const call = () => compiled(...operands.map((operand) => operand.ref));
  return {
    run: async () => (await call().blockUntilReady()).dispose(),
    result: () => call().dataSync() as Float32Array,
    dispose() {
      for (const operand of operands) operand.dispose();
      compiled.dispose();
    },
  };
}

export default peer;

import { defaultDevice, grad, init, type Array as JaxArray, jit, nn, numpy as np } from "@jax-js/jax";
import type { AttentionCase, BackwardCase } from "../../cases.ts";
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
      case "backward":
        return backward(work, inputs, place);
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
function arrange(c: AttentionCase | BackwardCase, inputs: readonly Float32Array[]) {
  const lengths = [c.seqLenQ, c.seqLenK, c.seqLenK, c.seqLenQ].slice(0, inputs.length);
  const shapes = lengths.map((length) => [c.batchSize, length, c.numHeads, c.headDim]);
  const operands = inputs.map((data, i) =>
    exchangeAxes(data, [c.batchSize, c.numHeads, lengths[i] as number, c.headDim]),
  );
  const restore = (data: Float32Array) => exchangeAxes(data, [c.batchSize, c.seqLenQ, c.numHeads, c.headDim]);
  return { shapes, operands, restore };
}

function attention(c: AttentionCase, inputs: readonly Float32Array[], place: Place): Operation {
  const { shapes, operands, restore } = arrange(c, inputs);
  const compute = (...[q, k, v]: JaxArray[]) =>
    nn.dotProductAttention(q as JaxArray, k as JaxArray, v as JaxArray, { isCausal: c.isCausal });
  const operation = operationOf(compute, operands, shapes, place);
  return { ...operation, result: async () => restore(await operation.result()) };
}

/** grad of sum(attention(q, k, v) * dOut) by all three; it runs the forward too. */
function backward(c: BackwardCase, inputs: readonly Float32Array[], place: Place): Operation {
  const { shapes, operands, restore } = arrange(c, inputs);
  const product = (q: JaxArray, k: JaxArray, v: JaxArray, dOut: JaxArray) =>
    np.sum(nn.dotProductAttention(q, k, v, { isCausal: c.isCausal }).mul(dOut));
  const gradients = grad(product, { argnums: [0, 1, 2] });
  const compute = (...all: JaxArray[]) => gradients(...(all as Parameters<typeof product>)) as JaxArray[];
  const operation = operationOf(compute, operands, shapes, place);
  return {
    ...operation,
    result: async () => restore(await operation.result()),
    note: "forward and backward",
  };
}

/** The first of several results is what is verified. A call uses its operands up; `ref` keeps them for the next. */
function operationOf(
  compute: (...operands: JaxArray[]) => JaxArray | JaxArray[],
  inputs: readonly Float32Array[],
  shapes: readonly number[][],
  place: Place,
): Operation & { result(): Float32Array } {
  const compiled = jit((...operands: JaxArray[]) => [compute(...operands)].flat());
  const placed = () =>
    inputs.map((data, i) => np.array(data as Float32Array<ArrayBuffer>).reshape(shapes[i] as number[]));
  const residents = place === "resident" ? placed() : undefined;
  const call = (): JaxArray[] => compiled(...(residents?.map((operand) => operand.ref) ?? placed()));
  const read = () => call().map((result) => result.dataSync() as Float32Array);
  return {
    run: residents
      ? async () => {
          for (const result of call()) (await result.blockUntilReady()).dispose();
        }
      : read,
    result: () => read()[0] as Float32Array,
    dispose() {
      for (const operand of residents ?? []) operand.dispose();
      compiled.dispose();
    },
  };
}

export default peer;

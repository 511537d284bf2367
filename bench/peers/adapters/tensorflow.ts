import * as tf from "@tensorflow/tfjs-core";
import "@tensorflow/tfjs-backend-wasm";
import type { AttentionCase } from "../../cases.ts";
import { causalBias, fastestOf, type Operation, type Peer, type Place, packageName } from "../peer.ts";

type Compute = (...operands: tf.Tensor[]) => tf.Tensor;

/** TensorFlow.js on its WebAssembly backend, which is XNNPACK where it can be. */
const peer: Peer = {
  name: packageName("@tensorflow/tfjs-backend-wasm"),
  async load() {
    await tf.setBackend("wasm");
    await tf.ready();
  },
  prepare(work, inputs, place) {
    switch (work.operation) {
      case "attention":
        return fastestOf([
          async () => ({ ...batched(work, inputs, place), note: "batched" }),
          async () => ({ ...headByHead(work, inputs, place), note: "head by head" }),
        ]);
      case "matmul": {
        const shapes = [
          [work.m, work.k],
          [work.k, work.n],
        ];
        return operationOf((a, b) => tf.matMul(a as tf.Tensor, b as tf.Tensor), inputs, shapes, place);
      }
      case "softmax":
        return operationOf((x) => tf.softmax(x as tf.Tensor), inputs, [[work.rows, work.columns]], place);
      case "backward":
      case "sentences":
        return undefined;
    }
  },
};

function batched(c: AttentionCase, inputs: readonly Float32Array[], place: Place): Operation {
  const heads = c.batchSize * c.numHeads;
  const keyShape = [heads, c.seqLenK, c.headDim];
  const bias = c.isCausal ? tf.tensor(causalBias(c), [c.seqLenQ, c.seqLenK]) : undefined;
  const compute: Compute = (q, k, v) => {
    const scores = tf.mul(tf.matMul(q as tf.Tensor, k as tf.Tensor, false, true), 1 / Math.sqrt(c.headDim));
    return tf.matMul(tf.softmax(bias ? tf.add(scores, bias) : scores), v as tf.Tensor);
  };
  return operationOf(compute, inputs, [[heads, c.seqLenQ, c.headDim], keyShape, keyShape], place);
}

/** Its fast product is of two matrices without a transpose, so: each head by itself, the keys transposed first. */
function headByHead(c: AttentionCase, inputs: readonly Float32Array[], place: Place): Operation {
  const heads = c.batchSize * c.numHeads;
  const bias = c.isCausal ? tf.tensor(causalBias(c), [c.seqLenQ, c.seqLenK]) : undefined;
  const perHead = inputs.flatMap((data) =>
    Array.from({ length: heads }, (_, head) => {
      const size = data.length / heads;
      return data.subarray(head * size, (head + 1) * size);
    }),
  );
  const shapes = perHead.map((data) => [data.length / c.headDim, c.headDim]);
  const compute: Compute = (...operands) =>
    tf.stack(
      Array.from({ length: heads }, (_, head) => {
        const [q, k, v] = [
          operands[head],
          operands[heads + head],
          operands[2 * heads + head],
        ] as tf.Tensor2D[];
        const scores = tf.mul(
          tf.matMul(q as tf.Tensor, tf.transpose(k as tf.Tensor)),
          1 / Math.sqrt(c.headDim),
        );
        return tf.matMul(tf.softmax(bias ? tf.add(scores, bias) : scores), v as tf.Tensor);
      }),
    );
  return operationOf(compute, perHead, shapes, place);
}

function operationOf(
  compute: Compute,
  inputs: readonly Float32Array[],
  shapes: readonly number[][],
  place: Place,
): Operation {
  const placed = () => inputs.map((data, i) => tf.tensor(data, shapes[i] as number[]));
  // tidy() looks through all that is returned to it for tensors: an array of numbers stays outside.
  const takeOut = (result: tf.Tensor) => {
    const data = result.dataSync() as Float32Array;
    result.dispose();
    return data;
  };
  if (place === "copied") return { run: () => takeOut(tf.tidy(() => compute(...placed()))) };

  const operands = placed();
  return {
    run: () => tf.tidy(() => compute(...operands)).dispose(),
    result: () => takeOut(tf.tidy(() => compute(...operands))),
    dispose: () => tf.dispose(operands),
  };
}

export default peer;

import * as np from "numpy-ts";
import type { AttentionCase, MatmulCase, SoftmaxCase } from "../../cases.ts";
import { causalBias, exchangeAxes, type Operation, type Peer, type Place, packageName } from "../peer.ts";

type NDArray = np.NDArray;

/** numpy-ts: an implementation of NumPy with kernels written in Zig; it has no softmax and no attention of its own. */
const peer: Peer = {
  name: packageName("numpy-ts"),
  async load() {
    np.configureWasm({ maxMemory: 2 ** 31 });
  },
  prepare(work, inputs, place) {
    switch (work.operation) {
      case "attention":
        return attention(work, inputs, place);
      case "matmul":
        return matmul(work, inputs, place);
      case "softmax":
        return softmax(work, inputs, place);
      case "backward":
      case "sentences":
        return undefined;
    }
  },
};

function matmul({ m, n, k }: MatmulCase, inputs: readonly Float32Array[], place: Place): Operation {
  const shapes = [
    [m, k],
    [k, n],
  ];
  return operationOf(
    (a, b) => (a as NDArray).matmul(b as NDArray) as NDArray,
    () => inputs,
    shapes,
    place,
  );
}

function softmax({ rows, columns }: SoftmaxCase, inputs: readonly Float32Array[], place: Place): Operation {
  return operationOf(
    (x) => softmaxOfRows(x as NDArray),
    () => inputs,
    [[rows, columns]],
    place,
  );
}

/** The keys are transposed on their way in: its own transpose takes longer. */
function attention(c: AttentionCase, inputs: readonly Float32Array[], place: Place): Operation {
  const heads = c.batchSize * c.numHeads;
  const [q, k, v] = inputs as [Float32Array, Float32Array, Float32Array];
  const scale = 1 / Math.sqrt(c.headDim);
  const bias = c.isCausal ? toArray(causalBias(c, heads), [heads, c.seqLenQ, c.seqLenK]) : undefined;
  const compute = (...[query, keyT, value]: NDArray[]) => {
    const scores = steps((query as NDArray).matmul(keyT as NDArray) as NDArray, [
      (x) => x.multiply(scale) as NDArray,
      ...(bias ? [(x: NDArray) => x.add(bias) as NDArray] : []),
      (x) => x.reshape([heads * c.seqLenQ, c.seqLenK]) as NDArray,
      softmaxOfRows,
      (x) => x.reshape([heads, c.seqLenQ, c.seqLenK]) as NDArray,
    ]);
    return steps(scores, [(x) => x.matmul(value as NDArray) as NDArray]);
  };
  const shapes = [
    [heads, c.seqLenQ, c.headDim],
    [heads, c.headDim, c.seqLenK],
    [heads, c.seqLenK, c.headDim],
  ];
  return operationOf(compute, () => [q, exchangeAxes(k, [heads, c.seqLenK, c.headDim, 1]), v], shapes, place);
}

/** Row statistics are repeated over the row: broadcasting them takes a path in JavaScript, far slower. */
function softmaxOfRows(x: NDArray): NDArray {
  const columns = x.shape[1] as number;
  const repeated = (column: NDArray) => steps(column, [(y) => np.repeat(y, columns, 1) as NDArray]);
  const max = repeated(x.max(1, true) as NDArray);
  const exps = steps(x.subtract(max) as NDArray, [(y) => y.exp() as NDArray]);
  const sum = repeated(exps.sum(1, true) as NDArray);
  const result = exps.divide(sum) as NDArray;
  for (const array of [max, exps, sum]) array.dispose();
  return result;
}

/** Applies one step after the other and frees what lies between. */
function steps(first: NDArray, rest: ReadonlyArray<(x: NDArray) => NDArray>): NDArray {
  return rest.reduce((x, step) => {
    const y = step(x);
    x.dispose();
    return y;
  }, first);
}

/** The fastest way in; np.array() goes through every element. */
function toArray(data: Float32Array, shape: number[]): NDArray {
  const array = np.zeros(shape, "float32") as NDArray;
  (array.data as Float32Array).set(data);
  return array;
}

function operationOf(
  compute: (...operands: NDArray[]) => NDArray,
  inputs: () => readonly Float32Array[],
  shapes: readonly number[][],
  place: Place,
): Operation {
  const placed = () => inputs().map((data, i) => toArray(data, shapes[i] as number[]));
  const dispose = (arrays: readonly NDArray[]) => {
    for (const array of arrays) array.dispose();
  };
  const takeOut = (array: NDArray) => {
    const data = (array.data as Float32Array).slice();
    array.dispose();
    return data;
  };
  if (place === "copied") {
    const run = () => {
      const operands = placed();
      const data = takeOut(compute(...operands));
      dispose(operands);
      return data;
    };
    return { run };
  }

  const operands = placed();
  return {
    run: () => compute(...operands).dispose(),
    result: () => takeOut(compute(...operands)),
    dispose: () => dispose(operands),
  };
}

export default peer;

import * as ort from "onnxruntime-web";
import type { AttentionCase, MatmulCase, SoftmaxCase } from "../../cases.ts";
import { type Graph, onnxModel, type Shapes } from "../onnx-model.ts";
import { causalBias, fastestOf, type Operation, type Peer, packageName } from "../peer.ts";

/** ONNX Runtime as WebAssembly. Its sessions copy what goes in and what comes out: it has no resident form. */
const peer: Peer = {
  name: packageName("onnxruntime-web"),
  async load() {
    ort.env.wasm.numThreads = 1;
    ort.env.logLevel = "fatal";
  },
  prepare(work, inputs, place) {
    if (place === "resident") return undefined;
    switch (work.operation) {
      case "attention":
        return fastestOf([
          async () => ({ ...(await session(attentionGraph(work), inputs)), note: "Attention" }),
          async () => ({
            ...(await session(decomposedGraph(work), inputs)),
            note: "MatMul, Softmax, MatMul",
          }),
        ]);
      case "matmul":
        return session(matmulGraph(work), inputs);
      case "softmax":
        return session(softmaxGraph(work), inputs);
      case "backward":
      case "sentences":
        return undefined;
    }
  },
};

function matmulGraph({ m, n, k }: MatmulCase): Graph {
  return {
    nodes: [{ type: "MatMul", inputs: ["a", "b"], output: "c" }],
    inputs: { a: [m, k], b: [k, n] },
    outputs: { c: [m, n] },
  };
}

function softmaxGraph({ rows, columns }: SoftmaxCase): Graph {
  return {
    nodes: [{ type: "Softmax", inputs: ["x"], output: "y" }],
    inputs: { x: [rows, columns] },
    outputs: { y: [rows, columns] },
  };
}

function attentionShapes({ batchSize, numHeads, seqLenQ, seqLenK, headDim }: AttentionCase): {
  inputs: Shapes;
  outputs: Shapes;
} {
  const queryShape = [batchSize, numHeads, seqLenQ, headDim];
  const keyShape = [batchSize, numHeads, seqLenK, headDim];
  return { inputs: { q: queryShape, k: keyShape, v: keyShape }, outputs: { y: queryShape } };
}

function attentionGraph(c: AttentionCase): Graph {
  const attributes = { is_causal: c.isCausal ? 1 : 0 };
  return {
    nodes: [{ type: "Attention", inputs: ["q", "k", "v"], output: "y", attributes }],
    ...attentionShapes(c),
  };
}

/** What a model exported without the operator holds. */
function decomposedGraph(c: AttentionCase): Graph {
  const bias = c.isCausal ? [{ type: "Add", inputs: ["scaled", "bias"], output: "biased" }] : [];
  return {
    nodes: [
      { type: "Transpose", inputs: ["k"], output: "kT", attributes: { perm: [0, 1, 3, 2] } },
      { type: "MatMul", inputs: ["q", "kT"], output: "scores" },
      { type: "Mul", inputs: ["scores", "scale"], output: "scaled" },
      ...bias,
      { type: "Softmax", inputs: [c.isCausal ? "biased" : "scaled"], output: "weights" },
      { type: "MatMul", inputs: ["weights", "v"], output: "y" },
    ],
    constants: {
      scale: { data: Float32Array.of(1 / Math.sqrt(c.headDim)), shape: [1] },
      ...(c.isCausal && { bias: { data: causalBias(c), shape: [1, 1, c.seqLenQ, c.seqLenK] } }),
    },
    ...attentionShapes(c),
  };
}

async function session(graph: Graph, inputs: readonly Float32Array[]): Promise<Operation> {
  const created = await ort.InferenceSession.create(onnxModel(graph), {
    executionProviders: ["wasm"],
    graphOptimizationLevel: "all",
  });
  const [output] = Object.keys(graph.outputs) as [string];
  const shapes = Object.entries(graph.inputs);
  const run = async () => {
    const feeds = shapes.map(([name, shape], i) => [
      name,
      new ort.Tensor("float32", inputs[i] as Float32Array, shape),
    ]);
    const results = await created.run(Object.fromEntries(feeds));
    return results[output]?.data as Float32Array;
  };
  return { run, dispose: () => void created.release() };
}

export default peer;

import type { RefAttentionOptions, RefMask } from "../reference/attention.ts";
import type { TestTensor } from "../reference/random.ts";
import { type Case, expectKnown, input, makeCase, toFloat32 } from "./case.ts";
import type { CaseFile } from "./data.ts";

/** Reads a golden case: forward outputs and gradients. */
export function goldenCase(file: CaseFile): Case {
  if (file.op === "attention") return attentionCase(file);
  if (file.op === "matmul") return matmulCase(file);
  expectKnown(file, "inputs", Object.keys(file.inputs), ["x", "dy"]);
  const axis = file.config?.axis as number;
  const operations: Record<string, Case["compute"]> = {
    softmax: (engine, [x, dy]) => {
      const y = engine.softmax(x as TestTensor, axis);
      return { y, dx: engine.softmaxBackward(dy as TestTensor, y, axis) };
    },
    log_softmax: (engine, [x, dy]) => {
      const y = engine.logSoftmax(x as TestTensor, axis);
      return { y, dx: engine.logSoftmaxBackward(dy as TestTensor, y, axis) };
    },
    logsumexp: (engine, [x, dy]) => ({
      y: engine.logSumExp(x as TestTensor, [axis], false),
      dx: engine.logSumExpBackward(dy as TestTensor, x as TestTensor, axis),
    }),
  };
  const compute = operations[file.op];
  if (!compute) throw new Error(`${file.name}: unknown operation ${file.op}`);
  return makeCase("golden", file, { operands: [input(file, "x"), input(file, "dy")], compute });
}

function matmulCase(file: CaseFile): Case {
  expectKnown(file, "inputs", Object.keys(file.inputs), ["a", "b", "dc"]);
  return makeCase("golden", file, {
    operands: [input(file, "a"), input(file, "b"), input(file, "dc")],
    exact: file.features?.includes("exact") ? [0, 1, 2] : [],
    compute: (engine, [a, b, dc]) => {
      const gradients = engine.matmulBackward(dc as TestTensor, a as TestTensor, b as TestTensor);
      return { c: engine.matmul(a as TestTensor, b as TestTensor, {}), da: gradients.dA, db: gradients.dB };
    },
  });
}

interface AttentionConfig {
  scale: number;
  scale_is_default: boolean;
  causal: "none" | "top-left" | "bottom-right";
  softcap: number;
  window_left: number | null;
  window_right: number | null;
  window_align: "none" | "top-left" | "bottom-right";
  alibi_slopes: number[] | null;
}

const sizes = ["batch", "heads", "kv_heads", "q_len", "kv_len", "head_dim", "v_head_dim"];
const understood = [
  "scale",
  "scale_is_default",
  "causal",
  "softcap",
  "window_left",
  "window_right",
  "window_align",
];

function attentionCase(file: CaseFile): Case {
  expectKnown(file, "inputs", Object.keys(file.inputs), ["q", "k", "v", "attn_mask", "dout"]);
  expectKnown(file, "config", Object.keys(file.config ?? {}), [...sizes, ...understood, "alibi_slopes"]);
  const config = file.config as unknown as AttentionConfig;
  const { softcap, alibi_slopes: slopes } = config;
  const hasWindow = config.window_left !== null || config.window_right !== null;
  // Options that a case does not use are left out, so that defaults are tested too.
  const options: RefAttentionOptions = {
    attnMask: mask(file),
    isCausal: config.causal !== "none",
    causalAlignment: alignment(file, config, hasWindow),
    ...(config.scale_is_default ? {} : { scale: config.scale }),
    ...(softcap > 0 ? { softcap } : {}),
    ...(hasWindow ? { windowSize: [config.window_left ?? -1, config.window_right ?? -1] as const } : {}),
    ...(slopes ? { alibiSlopes: { data: Float32Array.from(slopes), shape: [slopes.length] } } : {}),
  };
  const features = [softcap > 0 && "softcap", hasWindow && "windowSize", slopes && "alibiSlopes"];
  return makeCase("golden", file, {
    features: features.filter((feature) => typeof feature === "string"),
    operands: [input(file, "q"), input(file, "k"), input(file, "v"), input(file, "dout")],
    exact: file.features?.includes("exact-logits") ? [0, 1] : [],
    compute: (engine, [q, k, v, dOut]) => {
      const operands = [q, k, v] as [TestTensor, TestTensor, TestTensor];
      const { dQuery, dKey, dValue, dAttnMask, ...results } = engine.attentionBackward(
        dOut as TestTensor,
        operands,
        options,
      );
      return { ...results, dq: dQuery, dk: dKey, dv: dValue, ...(dAttnMask ? { dmask: dAttnMask } : {}) };
    },
  });
}

/** Causal, window and alibi each state where the queries stand; where lengths differ they must agree. */
function alignment(file: CaseFile, config: AttentionConfig, hasWindow: boolean): "topLeft" | "bottomRight" {
  const { q_len, kv_len } = file.config as { q_len: number; kv_len: number };
  const stated = new Set<string>();
  if (config.causal !== "none") stated.add(config.causal);
  if (hasWindow) stated.add(config.window_align === "bottom-right" ? "bottom-right" : "top-left");
  if (config.alibi_slopes) stated.add("bottom-right");
  if (stated.size > 1 && q_len !== kv_len) throw new Error(`${file.name}: alignments differ: ${[...stated]}`);
  return stated.has("bottom-right") ? "bottomRight" : "topLeft";
}

function mask(file: CaseFile): RefMask | undefined {
  const tensor = file.inputs.attn_mask;
  if (!tensor) return undefined;
  if (tensor.dtype === "bool") return { data: Uint8Array.from(tensor.data), shape: tensor.shape };
  return toFloat32(tensor);
}

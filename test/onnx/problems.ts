import fc from "fast-check";
import type { AttentionAttributes, AttentionInputs } from "../../src/onnx/index.ts";
import { toHalf } from "../reference/float16.ts";
import {
  type OnnxAttentionInputs,
  type OnnxAttentionOutputs,
  onnxAttention,
} from "../reference/onnx-attention.ts";
import type { RefTensor } from "../reference/rounding.ts";
import { type Calibrated, calibrate, randomTensor, type TestTensor } from "../support.ts";

/** A call of Attention, and how its inputs are stored. */
export interface OnnxProblem {
  attributes: AttentionAttributes;
  inputs: Record<string, TestTensor> & { Q: TestTensor; K: TestTensor; V: TestTensor };
  mask: (RefTensor & { isBoolean: boolean; kind: MaskKind }) | undefined;
  nonpad: number[] | undefined;
  /** Float tensors go in as the bits of float16. */
  isHalf: boolean;
}

type MaskKind = "boolean" | "float" | "integer";

export const outputNames = ["Y", "present_key", "present_value", "qk_matmul_output"] as const;

const sizes = fc.record({
  batch: fc.constantFrom(1, 2, 3),
  kvHeads: fc.constantFrom(1, 2, 3),
  group: fc.constantFrom(1, 2, 3),
  lq: fc.constantFrom(0, 1, 2, 5, 9),
  length: fc.constantFrom(0, 1, 2, 4, 7, 11),
  d: fc.constantFrom(1, 3, 4, 8),
  dv: fc.constantFrom(1, 4, 5),
  // What keys there are: a past inside, one outside, or none.
  cache: fc.constantFrom("none" as const, "past" as const, "nonpad" as const),
  pastLength: fc.constantFrom(0, 1, 3, 6),
  isPacked: fc.boolean(),
  isHalf: fc.constantFrom(false, false, true),
  opset: fc.constantFrom(23, 24, 25, undefined),
  seed: fc.integer({ min: 1, max: 2 ** 30 }),
});
type Sizes = typeof sizes extends fc.Arbitrary<infer T> ? T : never;

/** Attributes at random, each often absent. */
const attributesOf = ({ opset, isPacked, kvHeads, group }: Sizes): fc.Arbitrary<AttentionAttributes> => {
  const optional = <T>(values: fc.Arbitrary<T>) => fc.option(values, { nil: undefined });
  const side = (opset ?? 25) < 25 ? fc.constant(undefined) : optional(fc.integer({ min: -1, max: 6 }));
  return fc
    .record({
      is_causal: fc.constantFrom(0, 1, undefined),
      scale: fc.constantFrom(undefined, undefined, 0, 0.01, 1, -0.7, 3),
      softcap: fc.constantFrom(undefined, 0, 0.5, 2),
      softmax_precision: fc.constantFrom(undefined, 1, 10, 16),
      qk_matmul_output_mode: fc.constantFrom(undefined, 0, 1, 2, 3),
      left_window_size: side,
      right_window_size: side,
    })
    .map((drawn) => ({
      ...drawn,
      opset,
      ...(isPacked ? { q_num_heads: kvHeads * group, kv_num_heads: kvHeads } : {}),
    }));
};

/** A mask of any kind, rank and broadcast; from operator set 24 on its last axis may be short. */
function maskOf(s: Sizes, keys: number, longest: number): fc.Arbitrary<OnnxProblem["mask"]> {
  const full = [s.batch, s.kvHeads * s.group, s.lq];
  return fc
    .record({
      kind: fc.constantFrom<MaskKind>("boolean", "float", "integer"),
      rank: fc.integer({ min: 1, max: 4 }),
      broadcast: fc.tuple(fc.boolean(), fc.boolean(), fc.boolean()),
      last: (s.opset ?? 25) < 24 ? fc.constantFrom(1, keys) : fc.integer({ min: longest, max: keys }),
      live: fc.constantFrom(0.1, 0.5, 0.95),
    })
    .map(({ kind, rank, broadcast, last, live }) => {
      const lead = full.map((n, axis) => (broadcast[axis] ? 1 : n));
      const shape = [...lead.slice(4 - rank), last];
      const { data } = randomTensor(shape, s.seed + 7);
      const isSeen = randomTensor(shape, s.seed + 8).data.map((x) => (Math.abs(x) < 3 * live ? 1 : 0));
      if (kind === "boolean") return { data: isSeen, shape, kind, isBoolean: true };
      if (kind === "integer") return { data: data.map(Math.trunc), shape, kind, isBoolean: false };
      const bias = data.map((x, i) => (isSeen[i] ? half(x) : -Infinity));
      return { data: bias, shape, kind, isBoolean: false };
    });
}

export const onnxProblem: fc.Arbitrary<OnnxProblem> = sizes.chain((drawn) => {
  // Operator set 23 has no cache outside.
  const s = drawn.cache === "nonpad" && drawn.opset === 23 ? { ...drawn, cache: "none" as const } : drawn;
  const keys = s.length + (s.cache === "past" ? s.pastLength : 0);
  const lengths = fc.array(fc.integer({ min: 0, max: keys }), { minLength: s.batch, maxLength: s.batch });
  const nonpad = s.cache === "nonpad" ? lengths : fc.constant(undefined);
  return nonpad.chain((counts) =>
    fc
      .record({
        attributes: attributesOf(s),
        mask: fc.option(maskOf(s, keys, Math.max(0, ...(counts ?? []))), { nil: undefined, freq: 3 }),
      })
      .map((rest) => ({ ...rest, nonpad: counts, isHalf: s.isHalf, inputs: operandsOf(s) })),
  );
});

/** Numbers that float16 has, so that both storages hold the same. */
const half = (x: number): number => Math.round(x * 64) / 64;

function operandsOf(s: Sizes): OnnxProblem["inputs"] {
  const heads = s.kvHeads * s.group;
  const tensor = (
    h: number,
    length: number,
    width: number,
    seed: number,
    packed = s.isPacked,
  ): TestTensor => {
    const shape = packed ? [s.batch, length, h * width] : [s.batch, h, length, width];
    const { data } = randomTensor(shape, s.seed + seed);
    return { data: data.map(half), shape };
  };
  const operands = {
    Q: tensor(heads, s.lq, s.d, 1),
    K: tensor(s.kvHeads, s.length, s.d, 2),
    V: tensor(s.kvHeads, s.length, s.dv, 3),
  };
  if (s.cache !== "past") return operands as OnnxProblem["inputs"];
  return {
    ...operands,
    past_key: tensor(s.kvHeads, s.pastLength, s.d, 4, false),
    past_value: tensor(s.kvHeads, s.pastLength, s.dv, 5, false),
  };
}

/** The inputs as the function takes them. */
export function stored({ inputs, mask, nonpad, isHalf }: OnnxProblem): AttentionInputs {
  const float = ({ data, shape }: RefTensor) =>
    isHalf ? { data: Uint16Array.from(data, toHalf), shape } : { data: Float32Array.from(data), shape };
  const operands = Object.entries(inputs).map(([name, tensor]) => [name, float(tensor)]);
  const masks = {
    boolean: (m: RefTensor) => ({ data: Uint8Array.from(m.data), shape: m.shape }),
    integer: (m: RefTensor) => ({ data: Int32Array.from(m.data), shape: m.shape }),
    float,
  };
  return {
    ...Object.fromEntries(operands),
    ...(mask ? { attn_mask: masks[mask.kind](mask) } : {}),
    ...(nonpad
      ? { nonpad_kv_seqlen: { data: BigInt64Array.from(nonpad.map(BigInt)), shape: [nonpad.length] } }
      : {}),
  };
}

export const label = ({ attributes, inputs, mask, nonpad, isHalf }: OnnxProblem): string => {
  const shapes = Object.entries(inputs).map(([name, { shape }]) => `${name} [${shape}]`);
  const maskText = mask ? `${mask.kind} mask [${mask.shape}] ${Array.from(mask.data).join()}` : "";
  return `${JSON.stringify(attributes)} ${shapes.join(" ")} ${maskText} ${nonpad ?? ""}${isHalf ? " float16" : ""}`;
};

/** What the reference makes of a problem, output by output, and the tolerances. */
export function solve(problem: OnnxProblem): Calibrated {
  const { attributes, inputs, mask, nonpad } = problem;
  const names = Object.keys(inputs);
  const numbers = Object.entries(attributes).filter(([, value]) => value !== undefined);
  const rounded = Object.fromEntries(numbers.map(([name, value]) => [name, Math.fround(value as number)]));
  return calibrate(
    label(problem),
    Object.values(inputs),
    (tensors, round, draw) => {
      const moved = {
        ...Object.fromEntries(tensors.map((tensor, i) => [names[i], tensor])),
        attn_mask: mask,
        nonpad_kv_seqlen: nonpad && { data: nonpad, shape: [nonpad.length] },
      } as unknown as OnnxAttentionInputs;
      const outputs: OnnxAttentionOutputs = onnxAttention(rounded, moved, round, draw % 2 === 1);
      return outputNames.map((name) => outputs[name]);
    },
    { draws: 24 },
  );
}

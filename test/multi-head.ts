// Problems of multiHeadAttention: weights in one canonical form, and the forms in which the library takes them.
import type { MultiHeadAttentionOptions, ProjectionWeights, ResidentTensor, Runtime } from "../src/index.ts";
import { multiHeadAttention, type RefMultiHeadOptions } from "./reference/multi-head-attention.ts";
import { type Calibrated, calibrate, forReference, randomTensor, type TestTensor } from "./support.ts";

/** Query, key and value projections and that of the output: weights [outputs, inputs] and biases, in that order. */
export interface Weights {
  readonly qProj: Linear;
  readonly kProj: Linear;
  readonly vProj: Linear;
  readonly outProj: Linear;
}
interface Linear {
  readonly weight: TestTensor;
  readonly bias: TestTensor;
}

export interface Widths {
  readonly numHeads: number;
  readonly numKvHeads: number;
  readonly headDim: number;
  readonly valueDim?: number;
  /** Features of query, key and value. */
  readonly widths: readonly [number, number, number];
  readonly outputs: number;
}

/** Weights that keep the variance of what they are applied to. */
export function randomWeights({ numHeads, numKvHeads, headDim, ...o }: Widths, seed: number): Weights {
  const valueDim = o.valueDim ?? headDim;
  const linear = (outputs: number, inputs: number, at: number): Linear => {
    const weight = randomTensor([outputs, inputs], seed + at);
    return {
      weight: { ...weight, data: weight.data.map((x) => x / Math.sqrt(Math.max(inputs, 1))) },
      bias: randomTensor([outputs], seed + at + 1),
    };
  };
  return {
    qProj: linear(numHeads * headDim, o.widths[0], 10),
    kProj: linear(numKvHeads * headDim, o.widths[1], 12),
    vProj: linear(numKvHeads * valueDim, o.widths[2], 14),
    outProj: linear(o.outputs, numHeads * valueDim, 16),
  };
}

export interface Form {
  readonly fusedWeight?: boolean;
  readonly bias?: "none" | "fused" | "separate";
  readonly weightLayout?: "oi" | "io";
}

const concatenated = (...parts: TestTensor[]): TestTensor => ({
  data: Float32Array.from(parts.flatMap(({ data }) => [...data])),
  shape: [
    parts.reduce((sum, { shape }) => sum + (shape[0] as number), 0),
    ...(parts[0]?.shape.slice(1) ?? []),
  ],
});

export function transposed({ data, shape: [rows = 0, columns = 0] }: TestTensor): TestTensor {
  const at = (i: number) => data[(i % rows) * columns + Math.floor(i / rows)] as number;
  return { data: Float32Array.from(data, (_, i) => at(i)), shape: [columns, rows] };
}

/** The weights as the library takes them in one of their forms. */
export function inForm({ qProj, kProj, vProj, outProj }: Weights, form: Form = {}): ProjectionWeights {
  const { fusedWeight = false, bias = "separate", weightLayout = "oi" } = form;
  const laid = (weight: TestTensor): TestTensor => (weightLayout === "io" ? transposed(weight) : weight);
  const weights = fusedWeight
    ? { inProjWeight: laid(concatenated(qProj.weight, kProj.weight, vProj.weight)) }
    : {
        qProjWeight: laid(qProj.weight),
        kProjWeight: laid(kProj.weight),
        vProjWeight: laid(vProj.weight),
      };
  const biases = {
    none: {},
    fused: {
      inProjBias: concatenated(qProj.bias, kProj.bias, vProj.bias),
      outProjBias: outProj.bias,
    },
    separate: {
      qProjBias: qProj.bias,
      kProjBias: kProj.bias,
      vProjBias: vProj.bias,
      outProjBias: outProj.bias,
    },
  }[bias];
  return {
    ...weights,
    ...biases,
    outProjWeight: laid(outProj.weight),
    ...(form.weightLayout && { weightLayout }),
  } as ProjectionWeights;
}

type ResidentWeights = { [Name in keyof ProjectionWeights]: ResidentTensor };

/** The weights of "oi" in the memory of a runtime. */
export function residentWeights(runtime: Runtime, weights: ProjectionWeights): ResidentWeights {
  const there = Object.entries(weights).map(([name, tensor]) => {
    const { data, shape } = tensor as TestTensor;
    return [name, runtime.tensor(shape, data)];
  });
  return Object.fromEntries(there) as ResidentWeights;
}

/** What the options are but for the weights. */
export type OtherOptions = Omit<MultiHeadAttentionOptions, keyof ProjectionWeights | "weightLayout" | "out">;

/** What the reference makes of a problem, and the tolerance. */
export function solveMultiHead(
  label: string,
  operands: readonly [TestTensor, TestTensor, TestTensor],
  weights: Weights,
  options: OtherOptions,
  hasBias = true,
): Calibrated {
  const { qProj, kProj, vProj, outProj } = weights;
  const linears = [qProj, kProj, vProj, outProj].flatMap(({ weight, bias }) => [weight, bias]);
  return calibrate(
    label,
    [...operands, ...linears],
    ([q, k, v, ...moved], round, draw) => {
      const linear = (i: number) => ({
        weight: moved[2 * i] as TestTensor,
        ...(hasBias && { bias: moved[2 * i + 1] as TestTensor }),
      });
      const all = {
        ...forReference(options),
        numHeads: options.numHeads,
        numKvHeads: options.numKvHeads ?? options.numHeads,
        rotary: options.rotary,
        qProj: linear(0),
        kProj: linear(1),
        vProj: linear(2),
        outProj: linear(3),
        scaleQuery: draw % 2 === 1,
      } as RefMultiHeadOptions;
      return [multiHeadAttention(q as TestTensor, k as TestTensor, v as TestTensor, all, round)];
    },
    { draws: 16 },
  );
}

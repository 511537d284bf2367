import type { AttentionBackwardInputs, AttentionOptions, Runtime } from "../src/index.ts";
import { attentionBackward, type RefGradients } from "./reference/attention-backward.ts";
import type { RefTensor } from "./reference/rounding.ts";
import {
  type Calibrated,
  calibrate,
  describeOptions,
  digest,
  expectClose,
  forReference,
  randomTensor,
  type TestTensor,
} from "./support.ts";

export type Operands = readonly [query: TestTensor, key: TestTensor, value: TestTensor];

/** Upstream gradients of an output and a log-sum-exp. */
export interface Upstream {
  dOut: TestTensor;
  dLse?: TestTensor;
}

/** Random upstream gradients for what the forward gives. */
export function upstream(
  runtime: Runtime,
  operands: Operands,
  options: AttentionOptions,
  seed: number,
): Upstream {
  const { out, lse } = runtime.scaledDotProductAttention(...operands, { ...options, returnLse: true });
  return { dOut: randomTensor(out.shape, seed + 7), dLse: randomTensor(lse.shape, seed + 8) };
}

const isAdditive = ({ attnMask }: AttentionOptions): boolean => attnMask?.data instanceof Float32Array;

/** Forward, then backward, with every gradient that there is. */
export function gradientsOf(
  runtime: Runtime,
  [query, key, value]: Operands,
  options: AttentionOptions,
  { dOut, dLse }: Upstream,
): Record<string, TestTensor> {
  const { out, lse } = runtime.scaledDotProductAttention(query, key, value, { ...options, returnLse: true });
  const inputs: AttentionBackwardInputs = { ...options, dOut, dLse, query, key, value, out, lse };
  return {
    ...runtime.scaledDotProductAttentionBackward({
      ...inputs,
      returnDAttnMask: isAdditive(options),
      returnDSinks: options.sinks !== undefined,
    }),
  };
}

/** What the reference makes of it, in a fixed order, with tolerances of 3 times the error of plain float32. */
export function solveGradients(
  label: string,
  operands: Operands,
  options: AttentionOptions,
  { dOut, dLse }: Upstream,
): { names: string[]; solved: Calibrated } {
  const names = ["dQuery", "dKey", "dValue"];
  if (isAdditive(options)) names.push("dAttnMask");
  if (options.sinks) names.push("dSinks");
  const bias = isAdditive(options) ? [options.attnMask as TestTensor] : [];
  const solved = calibrate(
    `gradients of ${label} ${dLse ? digest(dLse.data) : ""}`,
    [...operands, dOut, ...bias],
    ([query, key, value, up, mask], round, draw) => {
      const all = {
        ...forReference(options),
        ...(mask ? { attnMask: mask } : {}),
        scaleQuery: draw % 2 === 1,
        deltaFromOut: draw % 4 >= 2,
      };
      const given = { dOut: up, dLse, query, key, value } as Parameters<typeof attentionBackward>[0];
      const gradients = attentionBackward(given, all, round);
      return names.map((name) => gradients[name as keyof RefGradients] as RefTensor);
    },
    { draws: 24, factor: 3 },
  );
  return { names, solved };
}

/** Weights below 1e-30 are 0, by design: a gradient may lack as much, times values of ordinary size. */
const SMALLEST_WEIGHT = 1e-28;

/** Every gradient held to the reference. */
export function expectGradients(
  runtime: Runtime,
  operands: Operands,
  options: AttentionOptions,
  up: Upstream,
): void {
  const label = `${operands.map(({ shape }) => `[${shape}]`)} ${describeOptions(options)}`;
  const { names, solved } = solveGradients(label, operands, options, up);
  const got = gradientsOf(runtime, operands, options, up);
  names.forEach((name, i) => {
    expectClose(
      got[name] as TestTensor,
      solved.want[i] as RefTensor,
      (solved.tolerances[i] as number) + SMALLEST_WEIGHT,
      `${name} of ${label}`,
    );
  });
}

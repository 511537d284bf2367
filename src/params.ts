// Writes the one argument of the attention kernel. Field offsets come from the compiler, through the exports.
import type { Core } from "./tensor.ts";

/** Element strides of one operand: batch, head, row. */
export interface Strides {
  batch: number;
  head: number;
  row: number;
}

/** The fields of AttentionParams (assembly/params.ts) by the same names. */
export interface AttentionParams {
  query: number;
  key: number;
  value: number;
  out: number;
  lse: number;
  mask: number;
  queryOffsets: number;
  kvLengths: number;
  scratch: number;
  numHeads: number;
  numKvHeads: number;
  lq: number;
  lk: number;
  d: number;
  dv: number;
  queryStrides: Strides;
  keyStrides: Strides;
  valueStrides: Strides;
  outStrides: Strides;
  maskKind: number;
  maskStrides: Strides & { column: number };
  windowLeft: number;
  windowRight: number;
  scale: number;
}

/** Writes the struct at `address`. */
export function writeParams({ kernels, memory }: Core, address: number, p: AttentionParams): void {
  const { i32 } = memory;
  const set = (offset: { readonly value: number }, value: number) => {
    i32[(address + offset.value) >>> 2] = value;
  };
  const setStrides = (offset: { readonly value: number }, strides: Strides) => {
    const first = (address + offset.value) >>> 2;
    i32[first] = strides.batch;
    i32[first + 1] = strides.head;
    i32[first + 2] = strides.row;
  };
  set(kernels.paramsQuery, p.query);
  set(kernels.paramsKey, p.key);
  set(kernels.paramsValue, p.value);
  set(kernels.paramsOut, p.out);
  set(kernels.paramsLse, p.lse);
  set(kernels.paramsMask, p.mask);
  set(kernels.paramsQueryOffsets, p.queryOffsets);
  set(kernels.paramsKvLengths, p.kvLengths);
  set(kernels.paramsScratch, p.scratch);
  set(kernels.paramsNumHeads, p.numHeads);
  set(kernels.paramsNumKvHeads, p.numKvHeads);
  set(kernels.paramsLq, p.lq);
  set(kernels.paramsLk, p.lk);
  set(kernels.paramsD, p.d);
  set(kernels.paramsDv, p.dv);
  setStrides(kernels.paramsQueryBatch, p.queryStrides);
  setStrides(kernels.paramsKeyBatch, p.keyStrides);
  setStrides(kernels.paramsValueBatch, p.valueStrides);
  setStrides(kernels.paramsOutBatch, p.outStrides);
  set(kernels.paramsMaskKind, p.maskKind);
  setStrides(kernels.paramsMaskBatch, p.maskStrides);
  i32[(address + kernels.paramsMaskBatch.value + 12) >>> 2] = p.maskStrides.column;
  set(kernels.paramsWindowLeft, p.windowLeft);
  set(kernels.paramsWindowRight, p.windowRight);
  memory.f32[(address + kernels.paramsScale.value) >>> 2] = p.scale;
}

// Writes the one argument of the attention kernel. Field offsets come from the compiler, through the exports.
import type { Kernels } from "./instance.ts";
import type { Mask } from "./mask.ts";
import type { Core } from "./tensor.ts";

/** The sizes of one call, every operand read as [batch, heads, length, width]. */
export interface Problem {
  /** Batch entries of the result, and of each operand: 1 serves every batch. */
  batch: number;
  queryBatch: number;
  keyBatch: number;
  valueBatch: number;
  numHeads: number;
  numKvHeads: number;
  lq: number;
  lk: number;
  d: number;
  dv: number;
  /** Layout [batch, length, heads, width] instead of [batch, heads, length, width]. */
  isBlhd: boolean;
  windowLeft: number;
  windowRight: number;
  scale: number;
  /** 0: none. */
  softcap: number;
}

/** Addresses of the operands and results. */
export interface Addresses {
  query: number;
  key: number;
  value: number;
  out: number;
  lse: number;
  mask: number;
  queryOffsets: number;
  kvLengths: number;
  /** 0: none. */
  alibiSlopes: number;
  sinks: number;
  scratch: number;
}

/** Element strides of a contiguous operand, in a row: batch, head, row. */
function writeStrides(
  i32: Int32Array,
  at: number,
  p: Problem,
  batch: number,
  heads: number,
  length: number,
  width: number,
): void {
  i32[at] = batch === 1 ? 0 : heads * length * width;
  i32[at + 1] = p.isBlhd ? width : length * width;
  i32[at + 2] = p.isBlhd ? heads * width : width;
}

function maskKind(kernels: Kernels, mask: Mask | undefined): number {
  if (mask === undefined) return kernels.MASK_NONE;
  return mask.additive === undefined ? kernels.MASK_BOOLEAN : kernels.MASK_ADDITIVE;
}

/** Writes the struct AttentionParams (assembly/params.ts) at `address`. */
export function writeParams(
  { kernels, memory }: Core,
  address: number,
  p: Problem,
  to: Addresses,
  mask: Mask | undefined,
  alibiBatch: number,
): void {
  const { i32 } = memory;
  i32[(address + kernels.paramsQuery) >>> 2] = to.query;
  i32[(address + kernels.paramsKey) >>> 2] = to.key;
  i32[(address + kernels.paramsValue) >>> 2] = to.value;
  i32[(address + kernels.paramsOut) >>> 2] = to.out;
  i32[(address + kernels.paramsLse) >>> 2] = to.lse;
  i32[(address + kernels.paramsMask) >>> 2] = to.mask;
  i32[(address + kernels.paramsQueryOffsets) >>> 2] = to.queryOffsets;
  i32[(address + kernels.paramsKvLengths) >>> 2] = to.kvLengths;
  i32[(address + kernels.paramsAlibiSlopes) >>> 2] = to.alibiSlopes;
  i32[(address + kernels.paramsSinks) >>> 2] = to.sinks;
  i32[(address + kernels.paramsScratch) >>> 2] = to.scratch;
  i32[(address + kernels.paramsNumHeads) >>> 2] = p.numHeads;
  i32[(address + kernels.paramsNumKvHeads) >>> 2] = p.numKvHeads;
  i32[(address + kernels.paramsLq) >>> 2] = p.lq;
  i32[(address + kernels.paramsLk) >>> 2] = p.lk;
  i32[(address + kernels.paramsD) >>> 2] = p.d;
  i32[(address + kernels.paramsDv) >>> 2] = p.dv;
  writeStrides(i32, (address + kernels.paramsQueryBatch) >>> 2, p, p.queryBatch, p.numHeads, p.lq, p.d);
  writeStrides(i32, (address + kernels.paramsKeyBatch) >>> 2, p, p.keyBatch, p.numKvHeads, p.lk, p.d);
  writeStrides(i32, (address + kernels.paramsValueBatch) >>> 2, p, p.valueBatch, p.numKvHeads, p.lk, p.dv);
  writeStrides(i32, (address + kernels.paramsOutBatch) >>> 2, p, p.batch, p.numHeads, p.lq, p.dv);
  i32[(address + kernels.paramsMaskKind) >>> 2] = maskKind(kernels, mask);
  if (mask !== undefined) {
    const at = (address + kernels.paramsMaskBatch) >>> 2;
    i32[at] = mask.batchStride;
    i32[at + 1] = mask.headStride;
    i32[at + 2] = mask.rowStride;
    i32[at + 3] = mask.columnStride;
  }
  i32[(address + kernels.paramsWindowLeft) >>> 2] = p.windowLeft;
  i32[(address + kernels.paramsWindowRight) >>> 2] = p.windowRight;
  i32[(address + kernels.paramsAlibiBatch) >>> 2] = alibiBatch;
  memory.f32[(address + kernels.paramsScale) >>> 2] = p.scale;
  memory.f32[(address + kernels.paramsSoftcap) >>> 2] = p.softcap;
}

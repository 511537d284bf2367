// Writes the one argument of the attention kernel. Field offsets come from the compiler, through the exports.
import type { Problem } from "./attention-problem.ts";
import type { Kernels } from "./instance.ts";
import type { Mask } from "./mask.ts";
import type { LinearMemory } from "./memory.ts";
import type { Core } from "./tensor.ts";

/** Addresses of what is not query, key, value or a result. */
interface Addresses {
  mask: number;
  queryOffsets: number;
  kvLengths: number;
  /** 0: none. */
  alibiSlopes: number;
  sinks: number;
  scratch: number;
  /** 0: key and value are read in place. */
  staging: number;
}

/** Element strides of a contiguous operand, in a row: batch, head, row. */
function writeStrides(
  i32: Int32Array,
  at: number,
  isBlhd: boolean,
  batch: number,
  heads: number,
  length: number,
  width: number,
): void {
  i32[at] = batch === 1 ? 0 : heads * length * width;
  i32[at + 1] = isBlhd ? width : length * width;
  i32[at + 2] = isBlhd ? heads * width : width;
}

function maskKind(kernels: Kernels, mask: Mask | undefined): number {
  if (mask === undefined) return kernels.MASK_NONE;
  return mask.additive === undefined ? kernels.MASK_BOOLEAN : kernels.MASK_ADDITIVE;
}

/** Writes the struct AttentionParams (assembly/params.ts) at `address`, but for what `writeOperands` does. */
export function writeParams(
  core: Core,
  address: number,
  p: Problem,
  to: Addresses,
  mask: Mask | undefined,
  alibiBatch: number,
): void {
  const { kernels, memory } = core;
  const { i32, f32 } = memory;
  writeAddresses(core, address, to);
  i32[(address + kernels.paramsNumHeads) >>> 2] = p.numHeads;
  i32[(address + kernels.paramsNumKvHeads) >>> 2] = p.numKvHeads;
  i32[(address + kernels.paramsLq) >>> 2] = p.lq;
  i32[(address + kernels.paramsLk) >>> 2] = p.lk;
  i32[(address + kernels.paramsD) >>> 2] = p.d;
  i32[(address + kernels.paramsDv) >>> 2] = p.dv;
  writeOperandStrides(core, address, p);
  writeMask(core, address, mask);
  i32[(address + kernels.paramsWindowLeft) >>> 2] = p.windowLeft;
  i32[(address + kernels.paramsWindowRight) >>> 2] = p.windowRight;
  i32[(address + kernels.paramsAlibiBatch) >>> 2] = alibiBatch;
  i32[(address + kernels.paramsKvType) >>> 2] = p.stored?.kvType ?? kernels.FLOAT32;
  i32[(address + kernels.paramsKvCapacity) >>> 2] = keyRows(p);
  f32[(address + kernels.paramsScale) >>> 2] = p.scale;
  f32[(address + kernels.paramsSoftcap) >>> 2] = p.softcap;
  i32[(address + kernels.paramsHasDropout) >>> 2] = p.dropoutP > 0 ? 1 : 0;
  if (p.dropoutP > 0) writeDropout(memory, kernels, address, p);
}

/** Writes where query, key, value and results begin, `lse` being NO_LSE where it is not wanted. */
export function writeOperands(
  { kernels, memory: { i32 } }: Core,
  address: number,
  query: number,
  key: number,
  value: number,
  out: number,
  lse: number,
): void {
  i32[(address + kernels.paramsQuery) >>> 2] = query;
  i32[(address + kernels.paramsKey) >>> 2] = key;
  i32[(address + kernels.paramsValue) >>> 2] = value;
  i32[(address + kernels.paramsOut) >>> 2] = out;
  i32[(address + kernels.paramsLse) >>> 2] = lse;
}

function writeAddresses({ kernels, memory: { i32 } }: Core, address: number, to: Addresses): void {
  i32[(address + kernels.paramsMask) >>> 2] = to.mask;
  i32[(address + kernels.paramsQueryOffsets) >>> 2] = to.queryOffsets;
  i32[(address + kernels.paramsKvLengths) >>> 2] = to.kvLengths;
  i32[(address + kernels.paramsAlibiSlopes) >>> 2] = to.alibiSlopes;
  i32[(address + kernels.paramsSinks) >>> 2] = to.sinks;
  i32[(address + kernels.paramsScratch) >>> 2] = to.scratch;
  i32[(address + kernels.paramsStaging) >>> 2] = to.staging;
}

/** Rows of key and value that each head has room for. */
function keyRows({ stored, lk }: Problem): number {
  return stored === undefined ? lk : stored.capacity;
}

function writeOperandStrides({ kernels, memory: { i32 } }: Core, address: number, p: Problem): void {
  const { isBlhd, numHeads, numKvHeads, lq, d, dv } = p;
  const rows = keyRows(p);
  const kvBlhd = isBlhd && p.stored === undefined;
  writeStrides(i32, (address + kernels.paramsQueryBatch) >>> 2, isBlhd, p.queryBatch, numHeads, lq, d);
  writeStrides(i32, (address + kernels.paramsKeyBatch) >>> 2, kvBlhd, p.keyBatch, numKvHeads, rows, d);
  writeStrides(i32, (address + kernels.paramsValueBatch) >>> 2, kvBlhd, p.valueBatch, numKvHeads, rows, dv);
  writeStrides(i32, (address + kernels.paramsOutBatch) >>> 2, isBlhd, p.batch, numHeads, lq, dv);
}

function writeMask({ kernels, memory: { i32 } }: Core, address: number, mask: Mask | undefined): void {
  i32[(address + kernels.paramsMaskKind) >>> 2] = maskKind(kernels, mask);
  if (mask === undefined) return;
  const at = (address + kernels.paramsMaskBatch) >>> 2;
  i32[at] = mask.batchStride;
  i32[at + 1] = mask.headStride;
  i32[at + 2] = mask.rowStride;
  i32[at + 3] = mask.columnStride;
}

/** assembly/dropout.ts drops a weight where its 32 random bits are below the threshold; with 1 no weight is kept. */
function writeDropout(
  { i32, f32 }: LinearMemory,
  kernels: Kernels,
  address: number,
  { dropoutP, seed }: Problem,
): void {
  i32[(address + kernels.paramsDropoutBelow) >>> 2] = Math.min(Math.round(dropoutP * 2 ** 32), 2 ** 32 - 1);
  f32[(address + kernels.paramsDropoutScale) >>> 2] = dropoutP === 1 ? 0 : 1 / (1 - dropoutP);
  i32[(address + kernels.paramsSeedLow) >>> 2] = seed % 2 ** 32;
  i32[(address + kernels.paramsSeedHigh) >>> 2] = Math.floor(seed / 2 ** 32);
}

/** Addresses of what comes into and goes out of the backward; 0: none. */
export interface GradientAddresses {
  dOut: number;
  dLse: number;
  dQuery: number;
  dKey: number;
  dValue: number;
  dMask: number;
  dSinks: number;
}

/** Writes the struct AttentionGradients (assembly/params.ts) at `address`. */
export function writeGradients({ kernels, memory }: Core, address: number, to: GradientAddresses): void {
  const { i32 } = memory;
  i32[(address + kernels.gradientsDOut) >>> 2] = to.dOut;
  i32[(address + kernels.gradientsDLse) >>> 2] = to.dLse;
  i32[(address + kernels.gradientsDQuery) >>> 2] = to.dQuery;
  i32[(address + kernels.gradientsDKey) >>> 2] = to.dKey;
  i32[(address + kernels.gradientsDValue) >>> 2] = to.dValue;
  i32[(address + kernels.gradientsDMask) >>> 2] = to.dMask;
  i32[(address + kernels.gradientsDSinks) >>> 2] = to.dSinks;
}

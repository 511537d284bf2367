// Checked inputs of attention before the kernel: room in the arena, copies of what does not live in Wasm memory, params.
import type { Inputs, Problem, Stored } from "./attention-problem.ts";
import { type Mask, stagedMaskBytes, stageMask } from "./mask.ts";
import { blockBytes } from "./memory.ts";
import { writeOperands, writeParams } from "./params.ts";
import { writePositions } from "./positions.ts";
import type { Core } from "./tensor.ts";

/** Bytes of arena for the operands, the params and what belongs to them. */
export function inputBytes(core: Core, inputs: Inputs): number {
  const { memory } = core;
  const { q, k, v } = inputs;
  return memory.stagedBytes(q) + memory.stagedBytes(k) + memory.stagedBytes(v) + otherBytes(core, inputs);
}

/** The same without query, key and value. */
export function otherBytes(core: Core, { p, mask, alibiSlopes, sinks }: Inputs): number {
  const { kernels, memory } = core;
  const perHead =
    (alibiSlopes === undefined ? 0 : memory.stagedBytes(alibiSlopes)) +
    (sinks === undefined ? 0 : memory.stagedBytes(sinks));
  return (
    stagedMaskBytes(core, mask) +
    perHead +
    stagingBytes(core, p) +
    2 * blockBytes(p.batch * 4) +
    blockBytes(kernels.paramsSize)
  );
}

/** Bytes into which the rows of a cache are copied on their way; float32 that never wraps is read in place. */
function stagingBytes({ kernels }: Core, { stored, lq, lk, d, dv }: Problem): number {
  if (stored === undefined || (stored.kvType === kernels.FLOAT32 && lk <= stored.capacity)) return 0;
  return blockBytes(kernels.cacheStagingBytes(lq, lk, d, dv));
}

/** Address of the mask, as if it began at key 0. */
function stageMaskOf(core: Core, mask: Mask | undefined, stored: Stored | undefined): number {
  const address = stageMask(core, mask);
  if (mask === undefined || stored === undefined) return address;
  return address - stored.firstKey * mask.columnStride * (mask.additive === undefined ? 1 : 4);
}

/** Copies in what does not live in Wasm memory, and writes the params; returns their address. */
export function stageInputs(core: Core, inputs: Inputs, out: number, lse: number, scratch: number): number {
  const { memory } = core;
  const params = stageOthers(core, inputs, scratch);
  const query = memory.stageOperand(inputs.q);
  const key = memory.stageOperand(inputs.k);
  const value = memory.stageOperand(inputs.v);
  writeOperands(core, params, query, key, value, out, lse);
  return params;
}

/** The same without query, key, value and results, which `writeOperands` adds. */
export function stageOthers(
  core: Core,
  { p, positions, mask, alibiSlopes, sinks }: Inputs,
  scratch: number,
): number {
  const { memory } = core;
  const staging = stagingBytes(core, p);
  const to = {
    mask: stageMaskOf(core, mask, p.stored),
    queryOffsets: memory.stage(p.batch * 4),
    kvLengths: memory.stage(p.batch * 4),
    alibiSlopes: alibiSlopes === undefined ? 0 : memory.stageOperand(alibiSlopes),
    sinks: sinks === undefined ? 0 : memory.stageOperand(sinks),
    scratch,
    staging: staging === 0 ? 0 : memory.stage(staging),
  };
  writePositions(core, positions, p, to.queryOffsets, to.kvLengths);
  const address = memory.stage(core.kernels.paramsSize);
  writeParams(core, address, p, to, mask, alibiSlopes?.shape.length === 2 ? p.numHeads : 0);
  return address;
}

/** Bytes of scratch of `attend`. */
export function scratchBytes({ kernels }: Core, { numHeads, numKvHeads, lq, lk, d, dv }: Problem): number {
  return kernels.attentionScratchBytes(numHeads, numKvHeads, lq, lk, d, dv);
}

/** Items of work of the kernel. */
export function workItems({ kernels }: Core, { batch, numHeads, numKvHeads, lq, lk, d }: Problem): number {
  return kernels.attentionWorkItems(batch, numHeads, numKvHeads, lq, lk, d);
}

/** Stages the inputs and runs the kernel, which writes to `out`, and to `lse` unless that is NO_LSE. */
export function attend(core: Core, inputs: Inputs, out: number, lse: number, scratch: number): void {
  const params = stageInputs(core, inputs, out, lse, scratch);
  core.kernels.attention(params, 0, workItems(core, inputs.p));
}

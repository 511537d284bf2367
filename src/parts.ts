// Long operands pass through Wasm memory in parts: each part is copied in, computed with and copied out while it is in
// cache, and takes the place of the one before.
import { blockBytes, type LinearMemory } from "./memory.ts";
import type { Result } from "./result.ts";
import type { Operand } from "./tensor.ts";

/**
 * What passes at a time, operands and results together, in floats: 512 KiB stay in L2. Against copying 64 MB of keys and
 * values whole, decode takes half the time; 256 KiB is as good, 1 MiB 4 % worse. npm run bench -- attention
 */
const PART_SIZE = 131072;

/** A call of `units` equal units of work, `step` of which pass at a time. Operands and results divide evenly into them. */
export interface Cut {
  readonly units: number;
  readonly step: number;
}

/** One part. */
export const WHOLE: Cut = { units: 1, step: 1 };

/**
 * Cuts the work of making a result from operands, by what is copied of them. Not at all where writing a part may change
 * what is still to be read.
 */
export function cut(units: number, operands: readonly Operand[], result?: Result): Cut {
  let size = result?.isCopied ? result.size : 0;
  for (const operand of operands) {
    if (operand.address < 0) size += operand.size;
    if (result?.mayOverwrite(operand)) return { units, step: units };
  }
  return { units, step: size <= PART_SIZE ? units : Math.max(1, Math.floor((PART_SIZE * units) / size)) };
}

/** Bytes of arena for a part of an operand. */
export function partBytes(memory: LinearMemory, operand: Operand, { units, step }: Cut): number {
  const bytes = memory.stagedBytes(operand);
  return step >= units || bytes === 0 ? bytes : blockBytes((operand.size / units) * step * 4);
}

/** Bytes of arena for a part of a result. */
export function resultBytes(result: Result, { units, step }: Cut): number {
  return result.stagedBytes(step >= units ? result.size : (result.size / units) * step);
}

/**
 * Runs `kernel` over one part after the other: units [begin, end), with the addresses of the first of them in each operand
 * and then in each result. The results are left to be closed.
 */
export function runInParts(
  memory: LinearMemory,
  { units, step }: Cut,
  operands: readonly Operand[],
  results: readonly Result[],
  kernel: (addresses: readonly number[], begin: number, end: number) => void,
): void {
  if (units === 0) return;
  const inputs = operands.length;
  const slots: number[] = [];
  for (const { address, size } of operands) {
    slots.push(address < 0 ? memory.stage((size / units) * step * 4) : address);
  }
  for (const result of results) slots.push(result.stage((result.size / units) * step));
  const addresses = [...slots];
  for (let begin = 0; begin < units; begin += step) {
    const end = Math.min(begin + step, units);
    for (let i = 0; i < inputs; i++) {
      const { address, data, size } = operands[i]!;
      const unit = size / units;
      if (address < 0) memory.copyIn(data, unit * begin, unit * end, slots[i]!);
      else addresses[i] = address + unit * begin * 4;
    }
    for (let i = 0; i < results.length; i++) {
      const { isCopied, size } = results[i]!;
      if (!isCopied) addresses[inputs + i] = slots[inputs + i]! + (size / units) * begin * 4;
    }
    kernel(addresses, begin, end);
    for (let i = 0; i < results.length; i++) {
      const unit = results[i]!.size / units;
      results[i]!.take(slots[inputs + i]!, unit * begin, unit * (end - begin));
    }
  }
}

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
  for (let i = 0; i < operands.length; i++) if (operands[i]!.address < 0) size += operands[i]!.size;
  const isWhole = size <= PART_SIZE || operands.some((operand) => result?.mayOverwrite(operand));
  return { units, step: isWhole ? units : Math.max(1, Math.floor((PART_SIZE * units) / size)) };
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
  const addresses: number[] = [];
  if (step >= units) {
    // One part, as of a small call, whose time is that of reading its arguments and of this: no division, no second loop.
    for (let i = 0; i < operands.length; i++) addresses.push(memory.stageOperand(operands[i]!));
    for (let i = 0; i < results.length; i++) addresses.push(results[i]!.stage());
    kernel(addresses, 0, units);
    for (let i = 0; i < results.length; i++)
      results[i]!.take(addresses[operands.length + i]!, 0, results[i]!.size);
    return;
  }
  const slots = [
    ...operands.map(({ address, size }) => (address < 0 ? memory.stage((size / units) * step * 4) : address)),
    ...results.map((result) => result.stage((result.size / units) * step)),
  ];
  for (let begin = 0; begin < units; begin += step) {
    const end = Math.min(begin + step, units);
    operands.forEach(({ address, data, size }, i) => {
      const unit = size / units;
      if (address < 0) memory.copyIn(data, unit * begin, unit * end, slots[i]!);
      addresses[i] = slots[i]! + (address < 0 ? 0 : unit * begin * 4);
    });
    results.forEach(({ isCopied, size }, i) => {
      const slot = slots[operands.length + i]!;
      addresses[operands.length + i] = slot + (isCopied ? 0 : (size / units) * begin * 4);
    });
    kernel(addresses, begin, end);
    results.forEach((result, i) => {
      const unit = result.size / units;
      result.take(slots[operands.length + i]!, unit * begin, unit * (end - begin));
    });
  }
}

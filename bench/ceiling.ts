import { readFileSync } from "node:fs";
import { fileURLToPath } from "node:url";
import asc from "assemblyscript/asc";
import type { Variant } from "wasm-attention";
import { median } from "./statistics.ts";

/** What the machine can do at most, probed anew at each call: it may be shared, and its clock moves. */
export interface Ceiling {
  readonly variant: Variant;
  /** GFLOP/s of the vector multiply-add of this variant. */
  multiplyAdds(): number;
  /** GB/s of reading a buffer of so many bytes, between 16 KiB and 64 MiB, over and over. */
  read(bytes: number): number;
  /** GB/s of copying a buffer of so many bytes to another place. */
  copy(bytes: number): number;
}

/** Far beyond every cache of one core: a longer buffer is read at the same rate. */
export const LARGEST_BUFFER = 64 << 20;

/** Within L1, and long enough for the call itself not to count. */
export const SMALLEST_BUFFER = 16 << 10;

/** Operands of the multiply-add: they stay in L1. */
const OPERAND_BYTES = 16 << 10;

/** One probe: at least FEWEST samples of about SAMPLE_MS, at most MOST, and no new one after PROBE_MS. */
const SAMPLE_MS = 0.2;
const FEWEST_SAMPLES = 5;
const MOST_SAMPLES = 15;
const PROBE_MS = 10;

/** Long enough for the optimising tier of the engine to take over, which it does between two calls. */
const WARMUP_MS = 100;

interface PeakExports {
  memory: WebAssembly.Memory;
  STEP_MULTIPLY_ADDS: WebAssembly.Global;
  STEP_BYTES: WebAssembly.Global;
  STEP_OVERHANG: WebAssembly.Global;
  heapBase(): number;
  multiplyAdds(start: number, bytes: number, repeats: number): number;
  read(start: number, bytes: number): number;
  copy(target: number, source: number, bytes: number): void;
}

/** Compiles assembly/peak.ts for a variant; undefined where the engine cannot run it. */
export async function loadCeiling(variant: Variant): Promise<Ceiling | undefined> {
  const config = fileURLToPath(new URL("assembly/asconfig.json", import.meta.url));
  const { error, stderr } = await asc.main(["--config", config, "--target", variant]);
  if (error)
    throw new Error(`asc could not compile bench/assembly/peak.ts for ${variant}:\n${stderr.toString()}`);
  const bytes = readFileSync(new URL(`../build/peak-${variant}.wasm`, import.meta.url));
  if (!WebAssembly.validate(bytes)) return undefined;
  const { exports } = new WebAssembly.Instance(new WebAssembly.Module(bytes));
  return createCeiling(variant, exports as unknown as PeakExports);
}

function createCeiling(variant: Variant, peak: PeakExports): Ceiling {
  const start = peak.heapBase();
  const flopsOfPass = (OPERAND_BYTES / peak.STEP_BYTES.value) * peak.STEP_MULTIPLY_ADDS.value * 8;
  const reserve = (bytes: number) => reserveMemory(peak.memory, start, bytes);
  reserve(OPERAND_BYTES + peak.STEP_OVERHANG.value);

  const probeMultiplyAdds = probe(() => peak.multiplyAdds(start, OPERAND_BYTES, 1));
  const readProbes = new Map<number, () => number>();
  return {
    variant,
    multiplyAdds: () => flopsOfPass / probeMultiplyAdds() / 1e6,
    read(bytes) {
      const size = Math.min(LARGEST_BUFFER, Math.max(SMALLEST_BUFFER, bytes & ~127));
      reserve(size);
      const probeRead = readProbes.get(size) ?? probe(() => peak.read(start, size));
      readProbes.set(size, probeRead);
      return size / probeRead() / 1e6;
    },
    copy(bytes) {
      reserve(2 * bytes);
      const probeCopy = probe(() => {
        peak.copy(start + bytes, start, bytes);
        return 0;
      });
      return bytes / probeCopy() / 1e6;
    },
  };
}

/** Makes so many bytes usable. All are written to: pages never written would share one frame of zeros. */
function reserveMemory(memory: WebAssembly.Memory, start: number, bytes: number): void {
  const held = memory.buffer.byteLength;
  const missing = start + bytes - held;
  if (missing <= 0) return;
  memory.grow(Math.ceil(missing / 65536));
  new Float32Array(memory.buffer, start).fill(0.5);
}

/** Returns a function that samples a call for a few milliseconds and gives the median time of one, in milliseconds. */
function probe(call: () => number): () => number {
  let callsPerSample = 0;
  return () => {
    if (callsPerSample === 0) {
      const warmUntil = performance.now() + WARMUP_MS;
      do timePerCall(call, 1);
      while (performance.now() < warmUntil);
      callsPerSample = Math.ceil(SAMPLE_MS / timePerCall(call, 3));
    }
    const samples: number[] = [];
    const end = performance.now() + PROBE_MS;
    while (samples.length < FEWEST_SAMPLES || (samples.length < MOST_SAMPLES && performance.now() < end)) {
      samples.push(timePerCall(call, callsPerSample));
    }
    return median(samples);
  };
}

function timePerCall(call: () => number, calls: number): number {
  let results = 0;
  const begin = performance.now();
  for (let i = 0; i < calls; i++) results += call();
  const elapsed = performance.now() - begin;
  if (Number.isNaN(results)) throw new Error("the operands of a ceiling probe are gone");
  return elapsed / calls;
}

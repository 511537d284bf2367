import { LARGEST_BUFFER, loadCeiling, SMALLEST_BUFFER } from "./ceiling.ts";
import { type Columns, gflops, gigabytes } from "./report.ts";
import { median, quantile } from "./statistics.ts";
import type { Context } from "./suite.ts";

const columns: Columns = [
  ["ceiling", 36],
  ["median", 12],
  ["p25 - p75", 27],
  ["probes", 6],
];

/** Probes of one line in each round of the effort. */
const PROBES = 5;

/** Half of a level-1 data cache of 32 KiB, a good part of a level-2 cache, and more than both hold. */
const readSizes = [
  ["read 16 KiB (L1)", SMALLEST_BUFFER],
  ["read 512 KiB (L2)", 512 << 10],
  ["read 64 MiB", LARGEST_BUFFER],
] as const;

/** What the machine can do: the numbers that the shares of the other benches refer to. */
export async function peakBench({ ceiling, report, effort, filter }: Context): Promise<void> {
  const simd = await loadCeiling("simd");
  const relaxed = await loadCeiling("relaxed");
  const lines: [name: string, probe: (() => number) | undefined, unit: (rate: number) => string][] = [
    ["multiply-add, relaxed (fused)", relaxed?.multiplyAdds, gflops],
    ["multiply-add, simd (mul, then add)", simd?.multiplyAdds, gflops],
    ...readSizes.map(([name, bytes]): (typeof lines)[number] => [name, () => ceiling.read(bytes), gigabytes]),
    ["copy 64 MiB", () => ceiling.copy(LARGEST_BUFFER), gigabytes],
  ];

  report.section("peak", columns);
  for (const [name, probe, unit] of lines) {
    if (!name.includes(filter)) continue;
    if (!probe) {
      report.row([name, "skipped: this engine has no relaxed SIMD"], { name, skipped: true });
      continue;
    }
    const rates = Array.from({ length: effort.rounds * PROBES }, probe);
    const [p25, p75] = [quantile(rates, 0.25), quantile(rates, 0.75)];
    const cells = [name, unit(median(rates)), `${unit(p25)} - ${unit(p75)}`, String(rates.length)];
    report.row(cells, { name, median: median(rates), p25, p75, probes: rates.length });
  }
}

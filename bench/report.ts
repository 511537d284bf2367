import { readFileSync, writeFileSync } from "node:fs";
import { availableParallelism, cpus } from "node:os";
import type { Case } from "./cases.ts";
import { bytes, flops, label } from "./facts.ts";
import type { Bound, Conclusion } from "./measure.ts";

/** Titles and widths of a table. */
export type Columns = ReadonlyArray<readonly [title: string, width: number]>;

/** Collects rows, printing each as it comes, in Markdown so that a table can be kept as it is. */
export interface Report {
  section(title: string, columns: Columns): void;
  /** Prints the cells, and keeps the facts behind them for save(). */
  row(cells: readonly string[], facts: Readonly<Record<string, unknown>>): void;
  readonly rowCount: number;
  /** Writes the facts of the run and of all rows. */
  save(file: string): void;
}

/** Prints what has to be known to read the numbers, and returns the report to add them to. */
export function createReport(facts: Readonly<Record<string, string>>): Report {
  const rows: Record<string, unknown>[] = [];
  let section = "";
  let columns: Columns = [];
  const print = (cells: readonly string[]) =>
    console.log(`| ${cells.map((cell, i) => cell.padEnd(columns[i]?.[1] ?? 0)).join(" | ")} |`);
  for (const [name, value] of Object.entries(facts)) console.log(`${name}: ${value}`);
  return {
    section(title, columnsOfSection) {
      section = title;
      columns = columnsOfSection;
      console.log(`\n### ${title}\n`);
      print(columns.map(([name]) => name));
      print(columns.map(([, width]) => "-".repeat(width)));
    },
    row(cells, factsOfRow) {
      rows.push({ section, ...factsOfRow });
      print(cells);
    },
    get rowCount() {
      return rows.length;
    },
    save(file) {
      writeFileSync(file, `${JSON.stringify({ ...facts, rows }, null, 2)}\n`);
    },
  };
}

/** An argument as a shell reads it. */
const quoted = (argument: string): string =>
  /^[\w.,=/-]+$/.test(argument) ? argument : `'${argument.replaceAll("'", "'\\''")}'`;

/** Date, machine, engine and command line: a number without them says nothing. */
export function runFacts(): Record<string, string> {
  const { name, version } = JSON.parse(readFileSync(new URL("../package.json", import.meta.url), "utf8"));
  const script = process.argv[1]?.match(/bench\/.*$/)?.[0] ?? "";
  return {
    package: `${name} ${version}`,
    date: new Date().toISOString(),
    cpu: `${cpus()[0]?.model.trim() ?? "unknown"}, ${availableParallelism()} cores`,
    engine: `Node ${process.version}, V8 ${process.versions.v8}`,
    command: ["node", script, ...process.argv.slice(2).map(quoted)].join(" "),
  };
}

/** The table of the benches that time cases. */
export const caseColumns: Columns = [
  ["case", 46],
  ["how", 16],
  ["median", 7],
  ["p25 - p75", 17],
  ["samples", 7],
  ["rate", 12],
  ["ceiling", 12],
  ["share", 6],
  ["note", 5],
];

/** Adds the line of a case measured against its ceiling. */
export function addCase(report: Report, c: Case, how: string, conclusion: Conclusion): void {
  const { timing, bound, share, isNoisy } = conclusion;
  const note = isNoisy ? "noisy" : "";
  const cells = [
    label(c),
    how,
    duration(timing.median),
    `${duration(timing.p25)} - ${duration(timing.p75)}`,
    String(timing.samples),
    rateOf(c, bound.by, timing.median),
    bound.by === "arithmetic" ? gflops(bound.rate) : gigabytes(bound.rate),
    percent(share),
    note,
  ];
  report.row(cells, { case: label(c), how, timing, bound, share, isNoisy });
}

export function rateOf(c: Case, by: Bound["by"], ms: number): string {
  return by === "arithmetic" ? gflops(flops(c) / ms / 1e6) : gigabytes(bytes(c) / ms / 1e6);
}

export const gflops = (rate: number): string => `${threeDigits(rate)} GFLOP/s`;
export const gigabytes = (rate: number): string => `${threeDigits(rate)} GB/s`;

/** A duration in the unit that suits it. */
export function duration(ms: number): string {
  const [factor, unit] =
    ms >= 1000 ? [1e-3, "s"] : ms >= 1 ? [1, "ms"] : ms >= 1e-3 ? [1e3, "us"] : [1e6, "ns"];
  return `${threeDigits(ms * factor)} ${unit}`;
}

export const percent = (share: number): string => `${(100 * share).toFixed(share < 0.1 ? 1 : 0)} %`;

function threeDigits(x: number): string {
  return x >= 100 ? x.toFixed(0) : x >= 10 ? x.toFixed(1) : x.toFixed(2);
}

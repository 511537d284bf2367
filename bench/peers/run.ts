// node bench/peers/run.ts [attention|matmul|softmax ...] [--only adapter,adapter] [--filter text] [--resident] [--quick] [--json file]

import { parseArgs } from "node:util";
import { type ComparedCase, comparedCases } from "../cases.ts";
import { loadCeiling } from "../ceiling.ts";
import { label } from "../facts.ts";
import { probeBound } from "../measure.ts";
import { type Columns, createReport, duration, percent, rateOf, runFacts } from "../report.ts";
import { quick, thorough } from "../stopwatch.ts";
import { compare, type Outcome, startPeers } from "./compare.ts";
import { installPeers } from "./install.ts";
import type { Place } from "./peer.ts";

const adapters = ["ours", "onnxruntime-web", "tensorflow", "jax-js", "numpy-ts", "plain-javascript"];

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    only: { type: "string", default: adapters.join(",") },
    filter: { type: "string", default: "" },
    resident: { type: "boolean", default: false },
    quick: { type: "boolean", default: false },
    json: { type: "string" },
  },
});
const chosenAdapters = values.only.split(",");
for (const name of chosenAdapters) {
  if (!adapters.includes(name)) {
    throw new RangeError(`bench/peers: no adapter is called ${name}; there are ${adapters.join(", ")}`);
  }
}
const cases = comparedCases.filter(
  (c) => (positionals.length === 0 || positionals.includes(c.operation)) && label(c).includes(values.filter),
);
const places: Place[] = values.resident ? ["copied", "resident"] : ["copied"];

const columns: Columns = [
  ["peer", 36],
  ["median", 7],
  ["p25 - p75", 17],
  ["samples", 7],
  ["rate", 12],
  ["share", 6],
  ["time / ours", 11],
  ["error", 6],
  ["note", 5],
];
const summaryColumns: Columns = [
  ["case", 50],
  ["ours", 7],
  ["fastest WebAssembly peer", 36],
  ["median", 7],
  ["/ ours", 7],
  ["plain JavaScript", 16],
  ["/ ours", 7],
  ["note", 5],
];

installPeers();
const ceiling = (await loadCeiling("relaxed")) ?? (await loadCeiling("simd"));
if (!ceiling) throw new Error("bench/peers: this engine has no WebAssembly SIMD");
const report = createReport({ ...runFacts(), ceiling: ceiling.variant, threads: "1" });
const processes = await startPeers(chosenAdapters);
const effort = values.quick ? quick : thorough;
const summary: [title: string, outcomes: Outcome[]][] = [];

for (const c of cases) {
  for (const place of places) {
    const title = `${label(c)}, ${place}`;
    const outcomes = await compare(processes, { work: c, place, effort }, () => probeBound(c, ceiling));
    report.section(title, columns);
    for (const outcome of outcomes) report.row(cells(c, outcome, oursIn(outcomes)), { title, ...outcome });
    summary.push([title, outcomes]);
  }
}
report.section("ours beside the fastest peer", summaryColumns);
for (const [title, outcomes] of summary) report.row(summaryCells(title, outcomes), { title });
for (const process of processes.values()) process.stop();
if (values.json) report.save(values.json);

function oursIn(outcomes: readonly Outcome[]): number | undefined {
  return outcomes.find(({ adapter }) => adapter === "ours")?.result?.timing.median;
}

/** Error is a multiple of that of plain float32 loops; share is of the ceiling, as in the other benches. */
function cells(c: ComparedCase, { peer, failure, preparation, result }: Outcome, ours?: number): string[] {
  if (!result) return [peer, `fails: ${failure?.split("\n")[0]}`];
  const { timing, bound, share, isNoisy } = result;
  return [
    peer,
    duration(timing.median),
    `${duration(timing.p25)} - ${duration(timing.p75)}`,
    String(timing.samples),
    rateOf(c, bound.by, timing.median),
    percent(share),
    ratio(timing.median, ours),
    preparation?.error?.toFixed(2) ?? "",
    [preparation?.note, isNoisy && "noisy"].filter(Boolean).join(", "),
  ];
}

function summaryCells(title: string, outcomes: readonly Outcome[]): string[] {
  const ours = oursIn(outcomes);
  const timed = outcomes.flatMap(({ adapter, peer, result }) =>
    result ? [{ adapter, peer, ms: result.timing.median, isNoisy: result.isNoisy }] : [],
  );
  const plain = timed.find(({ adapter }) => adapter === "plain-javascript");
  const [fastest] = timed
    .filter(({ adapter }) => adapter !== "ours" && adapter !== "plain-javascript")
    .sort((a, b) => a.ms - b.ms);
  return [
    title,
    ours === undefined ? "" : duration(ours),
    fastest?.peer ?? "",
    fastest ? duration(fastest.ms) : "",
    fastest ? ratio(fastest.ms, ours) : "",
    plain ? duration(plain.ms) : "",
    plain ? ratio(plain.ms, ours) : "",
    timed[0]?.isNoisy || fastest?.isNoisy ? "noisy" : "",
  ];
}

function ratio(ms: number, ours: number | undefined): string {
  return ours === undefined ? "" : `${(ms / ours).toFixed(2)}x`;
}

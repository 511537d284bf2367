// node bench/run.ts [name ...] [--variant simd|relaxed] [--filter text] [--quick] [--json file]

import { parseArgs } from "node:util";
import type { Variant } from "wasm-attention";
import { attentionBench } from "./attention.bench.ts";
import { backwardBench } from "./attention-backward.bench.ts";
import { callsBench } from "./calls.bench.ts";
import { loadCeiling } from "./ceiling.ts";
import { gemmBench } from "./gemm.bench.ts";
import { cacheBench } from "./key-value-cache.bench.ts";
import { layersBench } from "./layers.bench.ts";
import { multiHeadBench } from "./multi-head-attention.bench.ts";
import { peakBench } from "./peak.bench.ts";
import { createReport, runFacts } from "./report.ts";
import { createRuntimeSync } from "./runtime.ts";
import { softmaxBench } from "./softmax.bench.ts";
import { quick, thorough } from "./stopwatch.ts";

const benches = {
  peak: peakBench,
  attention: attentionBench,
  backward: backwardBench,
  cache: cacheBench,
  gemm: gemmBench,
  softmax: softmaxBench,
  "multi-head-attention": multiHeadBench,
  layers: layersBench,
  calls: callsBench,
};
type BenchName = keyof typeof benches;

const { values, positionals } = parseArgs({
  allowPositionals: true,
  options: {
    variant: { type: "string" },
    filter: { type: "string", default: "" },
    quick: { type: "boolean", default: false },
    json: { type: "string" },
  },
});
const names = (positionals.length > 0 ? positionals : Object.keys(benches)) as BenchName[];
for (const name of names) {
  if (!Object.hasOwn(benches, name)) {
    throw new RangeError(`bench: no bench is called ${name}; there are ${Object.keys(benches).join(", ")}`);
  }
}

const runtime = createRuntimeSync({ variant: (values.variant ?? "auto") as Variant | "auto" });
const variant = runtime.info().variant as Variant;
const ceiling = await loadCeiling(variant);
if (!ceiling) throw new Error(`bench: this engine cannot run the ceiling of the ${variant} variant`);

const report = createReport({ ...runFacts(), variant });
const effort = values.quick ? quick : thorough;
for (const name of names) await benches[name]({ runtime, ceiling, report, effort, filter: values.filter });
if (report.rowCount === 0) throw new RangeError(`bench: no case has "${values.filter}" in its name`);
if (values.json) report.save(values.json);

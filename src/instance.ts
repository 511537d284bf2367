// Instantiation, through @assemblyscript/loader, in this file alone.
import { instantiate, instantiateSync } from "@assemblyscript/loader";

type Global = WebAssembly.Global & { readonly value: number };

/** The kernels and constants that assembly/index.ts exports; its header states the rules. */
export interface Kernels {
  readonly memory: WebAssembly.Memory;
  heapBase(): number;
  exp(x: number, y: number, begin: number, end: number): void;
  scale(alpha: number, x: number, y: number, begin: number, end: number): void;
  softmaxRows(mode: number, n: number, x: number, y: number, begin: number, end: number): void;
  softmaxColumns(mode: number, n: number, inner: number, x: number, y: number, begin: number, end: number): void;
  gemmScratchBytes(m: number, n: number, k: number, csA: number, csB: number): number;
  gemm(
    m: number, n: number, k: number, alpha: number,
    a: number, rsA: number, csA: number,
    b: number, rsB: number, csB: number,
    beta: number, c: number, ldc: number,
    scratch: number, begin: number, end: number,
  ): void;
  attention(params: number, begin: number, end: number): void;
  attentionScratchBytes(numHeads: number, numKvHeads: number, lq: number, d: number, dv: number): number;
  attentionWorkItems(batch: number, numHeads: number, numKvHeads: number, lq: number): number;
  readonly RELAXED: Global;
  readonly READ_SLACK: Global;
  readonly SOFTMAX: Global;
  readonly LOG_SOFTMAX: Global;
  readonly LOG_SUM_EXP: Global;
  readonly MASK_NONE: Global;
  readonly MASK_BOOLEAN: Global;
  readonly MASK_ADDITIVE: Global;
  readonly UNBOUNDED: Global;
  readonly paramsSize: Global;
  readonly paramsQuery: Global;
  readonly paramsKey: Global;
  readonly paramsValue: Global;
  readonly paramsOut: Global;
  readonly paramsLse: Global;
  readonly paramsMask: Global;
  readonly paramsQueryOffsets: Global;
  readonly paramsKvLengths: Global;
  readonly paramsScratch: Global;
  readonly paramsNumHeads: Global;
  readonly paramsNumKvHeads: Global;
  readonly paramsLq: Global;
  readonly paramsLk: Global;
  readonly paramsD: Global;
  readonly paramsDv: Global;
  readonly paramsQueryBatch: Global;
  readonly paramsKeyBatch: Global;
  readonly paramsValueBatch: Global;
  readonly paramsOutBatch: Global;
  readonly paramsMaskKind: Global;
  readonly paramsMaskBatch: Global;
  readonly paramsWindowLeft: Global;
  readonly paramsWindowRight: Global;
  readonly paramsScale: Global;
}

/** What a runtime can be made from. */
export type ModuleSource = WebAssembly.Module | Uint8Array | ArrayBuffer;

function checked(exports: Record<string, unknown>): Kernels {
  for (const name of ["memory", "attention", "gemm", "paramsScale"]) {
    if (exports[name] === undefined) {
      throw new TypeError(`createRuntime: module must be a build of wasm-attention, but it exports no "${name}"`);
    }
  }
  return exports as unknown as Kernels;
}

/** Says what a refusal to compile means to the user; anything else passes as it is. */
function explained(error: unknown): unknown {
  if (!(error instanceof Error) || error.name !== "CompileError") return error;
  return new Error(
    "wasm-attention: this engine refused to compile the WebAssembly module. A page needs 'wasm-unsafe-eval' in its " +
      "Content-Security-Policy; an edge runtime needs a module imported at build time, passed as " +
      "createRuntime({ module }); an engine without WebAssembly SIMD cannot run it.",
    { cause: error },
  );
}

/** Throws where there is no WebAssembly at all, so that importing the package never does. */
function requireWebAssembly(): void {
  if (typeof WebAssembly === "undefined") {
    throw new Error("wasm-attention: this engine has no WebAssembly, which every kernel of this package is");
  }
}

/**
 * A module that another realm compiled, as the sandbox of Next.js does for its edge runtime. It instantiates, but it is
 * no `instanceof WebAssembly.Module` of this realm, so that the loader would take it for bytes.
 */
function isForeignModule(source: ModuleSource): source is WebAssembly.Module {
  const isModule = Object.prototype.toString.call(source) === "[object WebAssembly.Module]";
  return isModule && !(source instanceof WebAssembly.Module);
}

export function instantiateKernelsSync(source: ModuleSource): Kernels {
  requireWebAssembly();
  try {
    if (isForeignModule(source)) return checked(new WebAssembly.Instance(source).exports);
    return checked(instantiateSync(source as BufferSource).instance.exports);
  } catch (error) {
    throw explained(error);
  }
}

export async function instantiateKernels(source: ModuleSource): Promise<Kernels> {
  requireWebAssembly();
  try {
    if (isForeignModule(source)) return checked((await WebAssembly.instantiate(source)).exports);
    return checked((await instantiate(source as BufferSource)).instance.exports);
  } catch (error) {
    throw explained(error);
  }
}

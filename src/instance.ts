// Instantiation, through @assemblyscript/loader, in this file alone.
import { instantiate, instantiateSync } from "@assemblyscript/loader";
import type { WasmModule } from "./types/runtime.ts";

/** The kernels and constants that assembly/index.ts exports; its header states the rules. */
export interface Kernels {
  readonly memory: { readonly buffer: ArrayBufferLike; grow(pages: number): number };
  heapBase(): number;
  exp(x: number, y: number, begin: number, end: number): void;
  scale(alpha: number, x: number, y: number, begin: number, end: number): void;
  add(x: number, y: number, z: number, begin: number, end: number): void;
  relu(x: number, y: number, begin: number, end: number): void;
  gelu(x: number, y: number, begin: number, end: number): void;
  geluTanh(x: number, y: number, begin: number, end: number): void;
  softmaxRows(mode: number, n: number, x: number, y: number, begin: number, end: number): void;
  softmaxColumns(
    mode: number,
    n: number,
    inner: number,
    x: number,
    y: number,
    begin: number,
    end: number,
  ): void;
  norm(
    mode: number,
    n: number,
    eps: number,
    x: number,
    weight: number,
    bias: number,
    y: number,
    mean: number,
    rstd: number,
    begin: number,
    end: number,
  ): void;
  rotary(
    interleaved: number,
    inner: number,
    length: number,
    rows: number,
    d: number,
    half: number,
    x: number,
    cos: number,
    sin: number,
    positions: number,
    positionBatch: number,
    y: number,
    begin: number,
    end: number,
  ): void;
  softmaxBackwardRows(
    mode: number,
    n: number,
    dOut: number,
    y: number,
    dx: number,
    begin: number,
    end: number,
  ): void;
  softmaxBackwardColumns(
    mode: number,
    n: number,
    inner: number,
    dOut: number,
    y: number,
    dx: number,
    begin: number,
    end: number,
  ): void;
  gemmScratchBytes(m: number, n: number, k: number, csA: number, csB: number): number;
  gemm(
    m: number,
    n: number,
    k: number,
    alpha: number,
    a: number,
    rsA: number,
    csA: number,
    b: number,
    rsB: number,
    csB: number,
    beta: number,
    c: number,
    ldc: number,
    scratch: number,
    begin: number,
    end: number,
  ): void;
  attention(params: number, begin: number, end: number): void;
  attentionScratchBytes(
    numHeads: number,
    numKvHeads: number,
    lq: number,
    lk: number,
    d: number,
    dv: number,
  ): number;
  attentionWorkItems(
    batch: number,
    numHeads: number,
    numKvHeads: number,
    lq: number,
    lk: number,
    d: number,
  ): number;
  attentionBackward(params: number, gradients: number, begin: number, end: number): void;
  attentionBackwardScratchBytes(d: number, dv: number): number;
  attentionBackwardWorkItems(batch: number, numHeads: number, numKvHeads: number): number;
  cacheAppend(
    kvType: number,
    numKvHeads: number,
    capacity: number,
    width: number,
    to: number,
    position: number,
    rows: number,
    from: number,
    fromBatch: number,
    fromHead: number,
    fromRow: number,
    begin: number,
    end: number,
  ): number;
  cacheStagingBytes(lq: number, lk: number, d: number, dv: number): number;
  readonly RELAXED: number;
  readonly NR: number;
  readonly KC: number;
  readonly NC: number;
  readonly FEW_ROWS: number;
  readonly READ_SLACK: number;
  readonly BLOCK_K: number;
  readonly SUBNORMAL_SHARE: number;
  readonly SOFTMAX: number;
  readonly LOG_SOFTMAX: number;
  readonly LOG_SUM_EXP: number;
  readonly LAYER_NORM: number;
  readonly RMS_NORM: number;
  readonly MASK_NONE: number;
  readonly MASK_BOOLEAN: number;
  readonly MASK_ADDITIVE: number;
  readonly FLOAT32: number;
  readonly FLOAT16: number;
  readonly FLOAT16_FINITE: number;
  readonly UNBOUNDED: number;
  readonly NO_LSE: number;
  readonly paramsSize: number;
  readonly paramsQuery: number;
  readonly paramsKey: number;
  readonly paramsValue: number;
  readonly paramsOut: number;
  readonly paramsLse: number;
  readonly paramsMask: number;
  readonly paramsQueryOffsets: number;
  readonly paramsKvLengths: number;
  readonly paramsAlibiSlopes: number;
  readonly paramsSinks: number;
  readonly paramsScratch: number;
  readonly paramsStaging: number;
  readonly paramsNumHeads: number;
  readonly paramsNumKvHeads: number;
  readonly paramsLq: number;
  readonly paramsLk: number;
  readonly paramsD: number;
  readonly paramsDv: number;
  readonly paramsQueryBatch: number;
  readonly paramsKeyBatch: number;
  readonly paramsValueBatch: number;
  readonly paramsOutBatch: number;
  readonly paramsMaskKind: number;
  readonly paramsMaskBatch: number;
  readonly paramsWindowLeft: number;
  readonly paramsWindowRight: number;
  readonly paramsAlibiBatch: number;
  readonly paramsKvType: number;
  readonly paramsKvCapacity: number;
  readonly paramsScale: number;
  readonly paramsSoftcap: number;
  readonly paramsDropoutBelow: number;
  readonly paramsDropoutScale: number;
  readonly paramsSeedLow: number;
  readonly paramsSeedHigh: number;
  readonly paramsHasDropout: number;
  readonly gradientsSize: number;
  readonly gradientsDOut: number;
  readonly gradientsDLse: number;
  readonly gradientsDQuery: number;
  readonly gradientsDKey: number;
  readonly gradientsDValue: number;
  readonly gradientsDMask: number;
  readonly gradientsDSinks: number;
}

/** What a runtime can be made from. */
export type ModuleSource = WasmModule | Uint8Array | ArrayBuffer;

/** Counts the changes of the export list and of what its parts mean; assembly/index.ts has the same. */
const ABI = 1;

/** The exports with constants as plain numbers: reading a WebAssembly.Global costs 50 ns, and a call reads forty. */
function readKernels(fn: string, exports: WebAssembly.Exports): Kernels {
  const abi = (exports.ABI as WebAssembly.Global | undefined)?.value;
  if (abi !== ABI) {
    throw new TypeError(
      `${fn}: module must be a build of this version of wasm-attention, whose ABI is ${ABI}; got one with ` +
        (abi === undefined ? "none" : `ABI ${String(abi)}`),
    );
  }
  const entries = Object.entries(exports).map(([name, value]) => {
    const isConstant = Object.prototype.toString.call(value) === "[object WebAssembly.Global]";
    return [name, isConstant ? (value as WebAssembly.Global).value : value];
  });
  return Object.fromEntries(entries) as Kernels; // not filled key by key: V8 would keep it as a hash table
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

export function instantiateKernelsSync(fn: string, source: ModuleSource): Kernels {
  requireWebAssembly();
  try {
    if (isForeignModule(source)) return readKernels(fn, new WebAssembly.Instance(source).exports);
    return readKernels(fn, instantiateSync(source as BufferSource).instance.exports);
  } catch (error) {
    throw explained(error);
  }
}

export async function instantiateKernels(fn: string, source: ModuleSource): Promise<Kernels> {
  requireWebAssembly();
  try {
    if (isForeignModule(source)) return readKernels(fn, (await WebAssembly.instantiate(source)).exports);
    return readKernels(fn, (await instantiate(source as BufferSource)).instance.exports);
  } catch (error) {
    throw explained(error);
  }
}

// A runtime: one instance of the kernels, its memory, and the operations over them.
import { gelu, relu } from "./activation.ts";
import { add } from "./add.ts";
import { scaledDotProductAttention } from "./attention.ts";
import { scaledDotProductAttentionBackward } from "./attention-backward.ts";
import { exp } from "./exp.ts";
import { chooseVariant } from "./features.ts";
import { instantiateKernels, instantiateKernelsSync, type Kernels, type ModuleSource } from "./instance.ts";
import { KeyValueCache } from "./key-value-cache.ts";
import { matmul } from "./matmul.ts";
import { matmulBackward } from "./matmul-backward.ts";
import { LinearMemory, MAX_MEMORY_BYTES } from "./memory.ts";
import { mergeAttention } from "./merge-attention.ts";
import { multiHeadAttention } from "./multi-head-attention.ts";
import { layerNorm, rmsNorm } from "./norm.ts";
import type {
  AddFunction,
  AttentionBackwardFunction,
  AttentionFunction,
  ElementwiseFunction,
  GeluFunction,
  LayerNormFunction,
  LogSumExpFunction,
  MatmulBackwardFunction,
  MatmulFunction,
  MergeAttentionFunction,
  MultiHeadAttentionFunction,
  Operations,
  RmsNormFunction,
  RotaryFunction,
  RotaryTablesFunction,
  ScaleFunction,
  SoftmaxBackwardFunction,
  SoftmaxFunction,
} from "./operations.ts";
import { rotaryEmbedding, rotaryTables } from "./rotary.ts";
import { scale } from "./scale.ts";
import { describe, NONE, readFlag, readOptions, readPositive } from "./shapes.ts";
import { logSoftmax, logSumExp, softmax } from "./softmax.ts";
import { logSoftmaxBackward, softmaxBackward } from "./softmax-backward.ts";
import { type Core, createTensor, type ResidentTensor } from "./tensor.ts";
import type {
  AttentionBackwardInputs,
  AttentionOptions,
  AttentionPart,
  MergeAttentionOptions,
} from "./types/attention.ts";
import type { KeyValueCacheOptions } from "./types/cache.ts";
import type { ElementwiseOptions, MatmulBackwardInputs, MatmulOptions } from "./types/dense.ts";
import type { GeluOptions, LayerNormOptions, RmsNormOptions, RotaryOptions } from "./types/layers.ts";
import type { RuntimeInfo, RuntimeOptions } from "./types/runtime.ts";
import type { LogSumExpOptions, SoftmaxOptions } from "./types/softmax.ts";
import type { Shape, TensorLike } from "./types/tensor.ts";

const OPTIONS: ReadonlySet<keyof RuntimeOptions> = new Set([
  "variant",
  "deterministic",
  "module",
  "maxMemoryBytes",
]);

/**
 * An isolated set of kernels with a memory of its own and every operation as a method. The methods may be taken off it:
 * `const { matmul, softmax } = runtime`. One runtime serves a whole program: its memory holds any number of tensors.
 */
export class Runtime implements Operations {
  readonly #core: Core;
  readonly #reasons: readonly string[];

  /** @internal Use createRuntime or createRuntimeSync. */
  constructor(fn: string, kernels: Kernels, maxMemoryBytes: number, reasons: readonly string[]) {
    this.#core = { kernels, memory: new LinearMemory(fn, kernels, maxMemoryBytes), again: undefined };
    this.#reasons = reasons;
  }

  /** The function {@link scaledDotProductAttention} on this runtime. */
  readonly scaledDotProductAttention = ((
    query: TensorLike,
    key: TensorLike,
    value: TensorLike,
    options?: AttentionOptions,
  ) => scaledDotProductAttention(this.#core, query, key, value, options)) as AttentionFunction;
  /** The function {@link scaledDotProductAttentionBackward} on this runtime. */
  readonly scaledDotProductAttentionBackward = ((inputs: AttentionBackwardInputs) =>
    scaledDotProductAttentionBackward(this.#core, inputs)) as AttentionBackwardFunction;
  /** The function {@link multiHeadAttention} on this runtime. */
  readonly multiHeadAttention = ((query: TensorLike, ...others: Parameters<typeof multiHeadAttention>[2]) =>
    multiHeadAttention(this.#core, query, others)) as MultiHeadAttentionFunction;
  /** The function {@link mergeAttention} on this runtime. */
  readonly mergeAttention = ((parts: readonly AttentionPart[], options?: MergeAttentionOptions) =>
    mergeAttention(this.#core, parts, options)) as MergeAttentionFunction;
  /** The function {@link keyValueCache} on this runtime. */
  readonly keyValueCache = (options: KeyValueCacheOptions): KeyValueCache =>
    new KeyValueCache(this.#core, options);
  /** The function {@link matmul} on this runtime. */
  readonly matmul = ((a: TensorLike, b: TensorLike, options?: MatmulOptions) =>
    matmul(this.#core, a, b, options)) as MatmulFunction;
  /** The function {@link matmulBackward} on this runtime. */
  readonly matmulBackward = ((inputs: MatmulBackwardInputs) =>
    matmulBackward(this.#core, inputs)) as MatmulBackwardFunction;
  /** The function {@link softmax} on this runtime. */
  readonly softmax = ((x: TensorLike, options?: SoftmaxOptions) =>
    softmax(this.#core, x, options)) as SoftmaxFunction;
  /** The function {@link logSoftmax} on this runtime. */
  readonly logSoftmax = ((x: TensorLike, options?: SoftmaxOptions) =>
    logSoftmax(this.#core, x, options)) as SoftmaxFunction;
  /** The function {@link softmaxBackward} on this runtime. */
  readonly softmaxBackward = ((dOut: TensorLike, y: TensorLike, options?: SoftmaxOptions) =>
    softmaxBackward(this.#core, dOut, y, options)) as SoftmaxBackwardFunction;
  /** The function {@link logSoftmaxBackward} on this runtime. */
  readonly logSoftmaxBackward = ((dOut: TensorLike, y: TensorLike, options?: SoftmaxOptions) =>
    logSoftmaxBackward(this.#core, dOut, y, options)) as SoftmaxBackwardFunction;
  /** The function {@link logSumExp} on this runtime. */
  readonly logSumExp = ((x: TensorLike, options?: LogSumExpOptions) =>
    logSumExp(this.#core, x, options)) as LogSumExpFunction;
  /** The function {@link scale} on this runtime. */
  readonly scale = ((x: TensorLike, alpha: number, options?: ElementwiseOptions) =>
    scale(this.#core, x, alpha, options)) as ScaleFunction;
  /** The function {@link add} on this runtime. */
  readonly add = ((x: TensorLike, y: TensorLike, options?: ElementwiseOptions) =>
    add(this.#core, x, y, options)) as AddFunction;
  /** The function {@link exp} on this runtime. */
  readonly exp = ((x: TensorLike, options?: ElementwiseOptions) =>
    exp(this.#core, x, options)) as ElementwiseFunction;
  /** The function {@link layerNorm} on this runtime. */
  readonly layerNorm = ((x: TensorLike, options?: LayerNormOptions) =>
    layerNorm(this.#core, x, options)) as LayerNormFunction;
  /** The function {@link rmsNorm} on this runtime. */
  readonly rmsNorm = ((x: TensorLike, options?: RmsNormOptions) =>
    rmsNorm(this.#core, x, options)) as RmsNormFunction;
  /** The function {@link relu} on this runtime. */
  readonly relu = ((x: TensorLike, options?: ElementwiseOptions) =>
    relu(this.#core, x, options)) as ElementwiseFunction;
  /** The function {@link gelu} on this runtime. */
  readonly gelu = ((x: TensorLike, options?: GeluOptions) => gelu(this.#core, x, options)) as GeluFunction;
  /** The function {@link rotaryEmbedding} on this runtime. */
  readonly rotaryEmbedding = ((x: TensorLike, cos: TensorLike, sin: TensorLike, options?: RotaryOptions) =>
    rotaryEmbedding(this.#core, x, cos, sin, options)) as RotaryFunction;
  /** The function {@link rotaryTables}, which needs no runtime. */
  readonly rotaryTables: RotaryTablesFunction = rotaryTables;
  /** The function {@link tensor} on this runtime. */
  readonly tensor = (shape: Shape, data?: Float32Array): ResidentTensor =>
    createTensor(this.#core, shape, data);

  /** What is in use, and why not something better. */
  readonly info = (): RuntimeInfo => ({
    backend: "wasm",
    variant: this.#core.kernels.RELAXED === 1 ? "relaxed" : "simd",
    threads: 1,
    memoryBytes: this.#core.memory.byteLength,
    reasons: [...this.#reasons],
  });
}

/** What a runtime is made from, once the options are checked. */
interface Plan {
  source: ModuleSource;
  reasons: string[];
  maxMemoryBytes: number;
}

function isModuleSource(value: unknown): value is ModuleSource {
  const tag = Object.prototype.toString.call(value);
  return (
    tag === "[object WebAssembly.Module]" || tag === "[object Uint8Array]" || tag === "[object ArrayBuffer]"
  );
}

function plan(fn: string, given: RuntimeOptions): Plan {
  const options = readOptions(fn, given, OPTIONS);
  const { variant = "auto", module, maxMemoryBytes = MAX_MEMORY_BYTES } = options;
  const deterministic = readFlag(fn, "deterministic", options.deterministic);
  if (variant !== "auto" && variant !== "simd" && variant !== "relaxed") {
    throw new TypeError(`${fn}: variant must be "auto", "simd" or "relaxed", got ${describe(variant)}`);
  }
  const limit = Math.min(readPositive(fn, "maxMemoryBytes", maxMemoryBytes), MAX_MEMORY_BYTES);
  if (module === undefined)
    return { ...chooseVariant(fn, { variant, deterministic }), maxMemoryBytes: limit };
  if (!isModuleSource(module)) {
    throw new TypeError(
      `${fn}: module must be a WebAssembly.Module, a Uint8Array or an ArrayBuffer, got ${describe(module)}`,
    );
  }
  if (variant !== "auto" || deterministic) {
    throw new TypeError(
      `${fn}: module already is one variant; leave out variant and deterministic, or leave out module`,
    );
  }
  return { source: module, reasons: ["the module was given by the caller"], maxMemoryBytes: limit };
}

/**
 * An isolated runtime, compiled off the main thread where the engine can.
 *
 * @throws {TypeError} for an unknown option, a module that is not a build of this package, or options that contradict.
 * @throws {Error} where the engine cannot run the variant asked for, or may not compile bytes.
 * @example
 * const runtime = await createRuntime({ maxMemoryBytes: 256 * 2 ** 20 });
 * console.log(runtime.info().variant);
 */
export async function createRuntime(options: RuntimeOptions = NONE): Promise<Runtime> {
  const fn = "createRuntime";
  const { source, maxMemoryBytes, reasons } = plan(fn, options);
  return new Runtime(fn, await instantiateKernels(fn, source), maxMemoryBytes, reasons);
}

/**
 * The same as {@link createRuntime}, at once. Browsers compile on the main thread up to a limit: 8 MB in current ones,
 * 4 KB in Chrome before 115, where createRuntime is the way.
 *
 * @throws as createRuntime rejects.
 * @example
 * const { matmul } = createRuntimeSync({ deterministic: true });
 */
export function createRuntimeSync(options: RuntimeOptions = NONE): Runtime {
  const fn = "createRuntimeSync";
  const { source, maxMemoryBytes, reasons } = plan(fn, options);
  return new Runtime(fn, instantiateKernelsSync(fn, source), maxMemoryBytes, reasons);
}

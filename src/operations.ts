// The operations of a runtime by their types. Where every operand (masks, slopes and sinks aside) is resident the result
// is resident, and the caller's to dispose; otherwise it is a plain tensor. `out`, where given, takes the result and is
// returned, with `dims` alone as a new { data, shape } over its data.
import type { KeyValueCache } from "./key-value-cache.ts";
import type { ResidentTensor } from "./tensor.ts";
import type {
  AttentionBackwardInputs,
  AttentionGradients,
  AttentionOptions,
  AttentionPart,
  AttentionWithLse,
  MergeAttentionOptions,
} from "./types/attention.ts";
import type { CacheAttentionOptions, KeyValueCacheOptions } from "./types/cache.ts";
import type {
  ElementwiseOptions,
  MatmulBackwardInputs,
  MatmulGradients,
  MatmulOptions,
} from "./types/dense.ts";
import type {
  GeluOptions,
  LayerNormOptions,
  LayerNormWithStats,
  RmsNormOptions,
  RotaryOptions,
  RotaryTables,
  RotaryTablesOptions,
} from "./types/layers.ts";
import type { MultiHeadAttentionOptions, ProjectionWeights } from "./types/multi-head-attention.ts";
import type { LogSumExpOptions, SoftmaxOptions } from "./types/softmax.ts";
import type { Shape, Tensor, TensorLike } from "./types/tensor.ts";

type R = ResidentTensor;
type T = TensorLike;
interface Into<Out extends Tensor> {
  readonly out: Out;
}
interface Fresh {
  readonly out?: undefined;
}
interface WithLse {
  readonly returnLse: true;
}
interface WithoutLse {
  readonly returnLse?: false | undefined;
}

/** Type of scaledDotProductAttention: the output, or with `returnLse: true` the output and the log-sum-exp. */
export interface AttentionFunction {
  <Out extends Tensor>(
    query: R,
    key: R,
    value: R,
    options: AttentionOptions & WithLse & Into<Out>,
  ): AttentionWithLse<Out, R>;
  (query: R, key: R, value: R, options: AttentionOptions & WithLse & Fresh): AttentionWithLse<R>;
  <Out extends Tensor>(
    query: T,
    key: T,
    value: T,
    options: AttentionOptions & WithLse & Into<Out>,
  ): AttentionWithLse<Out, Tensor>;
  (query: T, key: T, value: T, options: AttentionOptions & WithLse): AttentionWithLse;
  <Out extends Tensor>(query: T, key: T, value: T, options: AttentionOptions & WithoutLse & Into<Out>): Out;
  (query: R, key: R, value: R, options?: AttentionOptions & WithoutLse & Fresh): R;
  (query: T, key: T, value: T, options?: AttentionOptions & WithoutLse): Tensor;
  (query: T, key: T, value: T, options?: AttentionOptions): Tensor | AttentionWithLse;
}

type Requested<I, T> = (I extends { readonly returnDAttnMask: true } ? { dAttnMask: T } : unknown) &
  (I extends { readonly returnDSinks: true } ? { dSinks: T } : unknown);
interface ResidentInputs {
  readonly dOut: R;
  readonly dLse?: R | undefined;
  readonly query: R;
  readonly key: R;
  readonly value: R;
  readonly out: R;
  readonly lse: R;
}

/** Type of scaledDotProductAttentionBackward. */
export interface AttentionBackwardFunction {
  <I extends AttentionBackwardInputs & ResidentInputs>(inputs: I): AttentionGradients<R> & Requested<I, R>;
  <I extends AttentionBackwardInputs>(inputs: I): AttentionGradients & Requested<I, Tensor>;
}

/** Type of attend of a {@link KeyValueCache}: the output, or with `returnLse: true` the output and the log-sum-exp. */
export interface AttendFunction {
  <Out extends Tensor>(
    query: R,
    options: CacheAttentionOptions & WithLse & Into<Out>,
  ): AttentionWithLse<Out, R>;
  (query: R, options: CacheAttentionOptions & WithLse & Fresh): AttentionWithLse<R>;
  <Out extends Tensor>(
    query: T,
    options: CacheAttentionOptions & WithLse & Into<Out>,
  ): AttentionWithLse<Out, Tensor>;
  (query: T, options: CacheAttentionOptions & WithLse): AttentionWithLse;
  <Out extends Tensor>(query: T, options: CacheAttentionOptions & WithoutLse & Into<Out>): Out;
  (query: R, options?: CacheAttentionOptions & WithoutLse & Fresh): R;
  (query: T, options?: CacheAttentionOptions & WithoutLse): Tensor;
  (query: T, options?: CacheAttentionOptions): Tensor | AttentionWithLse;
}

type HeadsOptions = MultiHeadAttentionOptions;
/** Options of multiHeadAttention whose weights and biases are all resident: of resident operands so is the result. */
export type ResidentMultiHeadAttentionOptions = HeadsOptions & {
  readonly [Name in keyof ProjectionWeights]: R | Extract<ProjectionWeights[Name], undefined>;
} & Fresh;

/** Type of multiHeadAttention: of one tensor, self-attention, or of query, key and value. */
export interface MultiHeadAttentionFunction {
  <Out extends Tensor>(x: T, options: HeadsOptions & Into<Out>): Out;
  (x: R, options: ResidentMultiHeadAttentionOptions): R;
  (x: T, options: HeadsOptions): Tensor;
  <Out extends Tensor>(
    query: T,
    key: T | undefined,
    value: T | undefined,
    options: HeadsOptions & Into<Out>,
  ): Out;
  (query: R, key: R | undefined, value: R | undefined, options: ResidentMultiHeadAttentionOptions): R;
  (query: T, key: T | undefined, value: T | undefined, options: HeadsOptions): Tensor;
}

/** Type of mergeAttention. */
export interface MergeAttentionFunction {
  (
    parts: readonly { readonly out: R; readonly lse: R }[],
    options?: MergeAttentionOptions,
  ): AttentionWithLse<R>;
  (parts: readonly AttentionPart[], options?: MergeAttentionOptions): AttentionWithLse;
}

/** Type of matmul. */
export interface MatmulFunction {
  <Out extends Tensor>(a: T, b: T, options: MatmulOptions & Into<Out>): Out;
  (a: R, b: R, options?: MatmulOptions & Fresh & { readonly c?: R | undefined }): R;
  (a: T, b: T, options?: MatmulOptions): Tensor;
}

type WithAddend<I, T> = I extends { readonly c: TensorLike } ? { dC: T } : unknown;
interface ResidentFactors {
  readonly dOut: R;
  readonly a: R;
  readonly b: R;
  readonly c?: R | undefined;
}

/** Type of matmulBackward. */
export interface MatmulBackwardFunction {
  <I extends MatmulBackwardInputs & ResidentFactors>(inputs: I): MatmulGradients<R> & WithAddend<I, R>;
  <I extends MatmulBackwardInputs>(inputs: I): MatmulGradients & WithAddend<I, Tensor>;
}

/** Of one tensor x: what operations share that differ in their options alone. */
export interface UnaryFunction<Options> {
  <Out extends Tensor>(x: T, options: Options & Into<Out>): Out;
  (x: R, options?: Options & Fresh): R;
  (x: T, options?: Options): Tensor;
}

/** Type of softmax and logSoftmax. */
export type SoftmaxFunction = UnaryFunction<SoftmaxOptions>;

/** Type of softmaxBackward and logSoftmaxBackward. */
export interface SoftmaxBackwardFunction {
  <Out extends Tensor>(dOut: T, y: T, options: SoftmaxOptions & Into<Out>): Out;
  (dOut: R, y: R, options?: SoftmaxOptions & Fresh): R;
  (dOut: T, y: T, options?: SoftmaxOptions): Tensor;
}

/** Type of logSumExp. */
export type LogSumExpFunction = UnaryFunction<LogSumExpOptions>;

/** Type of scale. */
export interface ScaleFunction {
  <Out extends Tensor>(x: T, alpha: number, options: ElementwiseOptions & Into<Out>): Out;
  (x: R, alpha: number, options?: ElementwiseOptions & Fresh): R;
  (x: T, alpha: number, options?: ElementwiseOptions): Tensor;
}

/** Type of add. */
export interface AddFunction {
  <Out extends Tensor>(x: T, y: T, options: ElementwiseOptions & Into<Out>): Out;
  (x: R, y: R, options?: ElementwiseOptions & Fresh): R;
  (x: T, y: T, options?: ElementwiseOptions): Tensor;
}

/** Type of exp and relu. */
export type ElementwiseFunction = UnaryFunction<ElementwiseOptions>;

/** Type of gelu. */
export type GeluFunction = UnaryFunction<GeluOptions>;

interface ResidentWeights {
  readonly weight?: R | undefined;
  readonly bias?: R | undefined;
}
interface WithStats {
  readonly returnStats: true;
}
interface WithoutStats {
  readonly returnStats?: false | undefined;
}

/** Type of layerNorm: the output, or with `returnStats: true` the output and the statistics of each row. */
export interface LayerNormFunction {
  <Out extends Tensor>(
    x: R,
    options: LayerNormOptions & ResidentWeights & WithStats & Into<Out>,
  ): LayerNormWithStats<Out, R>;
  (x: R, options: LayerNormOptions & ResidentWeights & WithStats & Fresh): LayerNormWithStats<R>;
  <Out extends Tensor>(
    x: T,
    options: LayerNormOptions & WithStats & Into<Out>,
  ): LayerNormWithStats<Out, Tensor>;
  (x: T, options: LayerNormOptions & WithStats): LayerNormWithStats;
  <Out extends Tensor>(x: T, options: LayerNormOptions & WithoutStats & Into<Out>): Out;
  (x: R, options?: LayerNormOptions & ResidentWeights & WithoutStats & Fresh): R;
  (x: T, options?: LayerNormOptions & WithoutStats): Tensor;
  (x: T, options?: LayerNormOptions): Tensor | LayerNormWithStats;
}

/** Type of rmsNorm. */
export interface RmsNormFunction {
  <Out extends Tensor>(x: T, options: RmsNormOptions & Into<Out>): Out;
  (x: R, options?: RmsNormOptions & ResidentWeights & Fresh): R;
  (x: T, options?: RmsNormOptions): Tensor;
}

/** Type of rotaryEmbedding. */
export interface RotaryFunction {
  <Out extends Tensor>(x: T, cos: T, sin: T, options: RotaryOptions & Into<Out>): Out;
  (x: R, cos: R, sin: R, options?: RotaryOptions & Fresh): R;
  (x: T, cos: T, sin: T, options?: RotaryOptions): Tensor;
}

/** Type of rotaryTables. */
export type RotaryTablesFunction = (
  length: number,
  rotaryDim: number,
  options?: RotaryTablesOptions,
) => RotaryTables;

/**
 * Everything that computes: the methods of a runtime, and the free functions on the default one.
 *
 * Each throws a TypeError for an argument or option of a wrong type, an unknown option and a disposed tensor, and a
 * RangeError for data that does not fill its shape, an `out` of another shape than the result or over an operand, and
 * exhausted memory. A free function throws an Error at the first call of all where the engine cannot run the kernels.
 */
export interface Operations {
  readonly scaledDotProductAttention: AttentionFunction;
  readonly scaledDotProductAttentionBackward: AttentionBackwardFunction;
  readonly multiHeadAttention: MultiHeadAttentionFunction;
  readonly mergeAttention: MergeAttentionFunction;
  readonly keyValueCache: (options: KeyValueCacheOptions) => KeyValueCache;
  readonly matmul: MatmulFunction;
  readonly matmulBackward: MatmulBackwardFunction;
  readonly softmax: SoftmaxFunction;
  readonly logSoftmax: SoftmaxFunction;
  readonly logSumExp: LogSumExpFunction;
  readonly softmaxBackward: SoftmaxBackwardFunction;
  readonly logSoftmaxBackward: SoftmaxBackwardFunction;
  readonly scale: ScaleFunction;
  readonly add: AddFunction;
  readonly exp: ElementwiseFunction;
  readonly layerNorm: LayerNormFunction;
  readonly rmsNorm: RmsNormFunction;
  readonly relu: ElementwiseFunction;
  readonly gelu: GeluFunction;
  readonly rotaryEmbedding: RotaryFunction;
  readonly rotaryTables: RotaryTablesFunction;
  readonly tensor: (shape: Shape, data?: Float32Array) => ResidentTensor;
}

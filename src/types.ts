/** Shape of a tensor: its axis lengths, outermost first, in row-major order. */
export type Shape = readonly number[];

/**
 * A float32 tensor as it goes in: row-major data and its shape. `dims` is read where `shape` is
 * absent, so tensors of onnxruntime and transformers.js go in unchanged. Any `Float32Array` view is
 * taken as it stands: subarrays at any offset, views of another realm, and resident tensors. Given as
 * `out`, a tensor with `dims` alone takes the result, and a new `{ data, shape }` over its data is returned.
 */
export type TensorLike =
  | { readonly data: Float32Array; readonly shape: Shape }
  | { readonly data: Float32Array; readonly dims: Shape };

/** A float32 tensor as it comes out: freshly allocated, row-major, yours to keep. */
export interface Tensor {
  data: Float32Array;
  shape: number[];
}

/** Boolean mask values: true or non-zero means "attend". */
export type BooleanData = Uint8Array | Uint8ClampedArray | readonly boolean[];

/**
 * An attention mask, broadcast right-aligned to `[batch, heads, queryLength, keyLength]` by its
 * explicit shape. Boolean data: true = attend. `Float32Array`: added to the scaled scores, with
 * -Infinity removing the key.
 */
export type MaskLike =
  | TensorLike
  | { readonly data: BooleanData; readonly shape: Shape }
  | { readonly data: BooleanData; readonly dims: Shape };

/** Order of the axes of query, key, value and output. */
export type Layout = "bhld" | "blhd";

/** Where the query block stands against the keys when their lengths differ. */
export type CausalAlignment = "topLeft" | "bottomRight";

/** Options of {@link Runtime.scaledDotProductAttention}; see Semantics in the README. */
export interface AttentionOptions {
  /** Keys that take part (boolean) or a bias on the scores (float32). */
  readonly attnMask?: MaskLike | undefined;
  /** Query i sees keys j <= i + queryOffset. Composes with every other option. Default false. */
  readonly isCausal?: boolean | undefined;
  /** Factor on the scores. Default 1 / sqrt(headDim of the query). 0 and negatives are values. */
  readonly scale?: number | undefined;
  /** Position of query 0 among the keys, one number or one per batch. Not clamped. */
  readonly queryOffset?: number | Int32Array | undefined;
  /** "topLeft" (default): queryOffset 0. "bottomRight": keyLength - queryLength, per batch under kvLengths. */
  readonly causalAlignment?: CausalAlignment | undefined;
  /** Number of valid keys of each batch entry; keys from there on are never read. */
  readonly kvLengths?: Int32Array | undefined;
  /**
   * [left, right]: query at position p sees keys p - left <= j <= p + right, both inclusive; -1 or Infinity is no bound.
   * Causal is right = 0. The position is that of queryOffset and causalAlignment, with or without isCausal.
   */
  readonly windowSize?: readonly [left: number, right: number] | undefined;
  /** Scores become softcap * tanh(score / softcap), before bias and mask. Default 0: none. */
  readonly softcap?: number | undefined;
  /** ALiBi: adds -slope * |position - j| to the scores. Shape [heads] or [batch, heads]. */
  readonly alibiSlopes?: TensorLike | undefined;
  /** A logit for each head, shape [heads], that joins the denominator only and is not scaled; lse includes it. */
  readonly sinks?: TensorLike | undefined;
  /**
   * Probability that a weight is dropped; the others are multiplied by 1 / (1 - dropoutP). Default 0. The weights that
   * are dropped follow from `seed`, batch entry, head, query and key, and from nothing else. lse is that without dropout.
   */
  readonly dropoutP?: number | undefined;
  /** Of the dropout: an integer from 0 to 2 ** 53 - 1. Required where dropoutP > 0; the backward takes the same. */
  readonly seed?: number | undefined;
  /** "bhld" (default) [batch, heads, length, headDim]; "blhd" [batch, length, heads, headDim]. */
  readonly layout?: Layout | undefined;
  /** Return the log-sum-exp of each score row beside the output. Default false. */
  readonly returnLse?: boolean | undefined;
  /** Write the output here instead of allocating it. */
  readonly out?: TensorLike | undefined;
}

/** Options of keyValueCache. */
export interface KeyValueCacheOptions {
  /** Sequences side by side, all of one length. Default 1. */
  readonly batch?: number | undefined;
  /** Heads of key and value. */
  readonly numKvHeads: number;
  /** Width of a key. */
  readonly headDim: number;
  /** Width of a value. Default headDim. */
  readonly valueDim?: number | undefined;
  /** Tokens to make room for once and for all. Default: grows as needed, by doubling. */
  readonly capacity?: number | undefined;
  /**
   * [left, 0]: a query at position p sees keys p - left <= j <= p, left + 1 of them, and older ones are overwritten: a
   * `sliding_window` of n tokens is [n - 1, 0]. The meaning is that of windowSize in attention. Default: no window.
   */
  readonly windowSize?: readonly [left: number, right: number] | undefined;
  /** Storage: "float16" halves the bytes that are held and read; rounded to nearest even. Default "float32". */
  readonly dtype?: "float32" | "float16" | undefined;
  /** Layout of key, value, query and output. Default "bhld". */
  readonly layout?: Layout | undefined;
}

/** Options of {@link KeyValueCache.attend}. */
export interface CacheAttentionOptions {
  /** A query sees keys up to its own position. Default true. */
  readonly isCausal?: boolean | undefined;
  /**
   * As in attention, over the keys that the queries may see: all `length` tokens, with the windowSize [left, 0] of the
   * cache the last min(length, left + queryLength).
   */
  readonly attnMask?: MaskLike | undefined;
  /** Factor on the scores. Default 1 / sqrt(headDim). */
  readonly scale?: number | undefined;
  /** As in attention; within the window of the cache, if that has one. */
  readonly windowSize?: readonly [left: number, right: number] | undefined;
  /** Scores become softcap * tanh(score / softcap). Default 0: none. */
  readonly softcap?: number | undefined;
  /** ALiBi by absolute positions. Shape [heads] or [batch, heads]. */
  readonly alibiSlopes?: TensorLike | undefined;
  /** A logit for each head, shape [heads], that joins the denominator only. */
  readonly sinks?: TensorLike | undefined;
  /** Return the log-sum-exp [batch, heads, queryLength] beside the output. Default false. */
  readonly returnLse?: boolean | undefined;
  /** Write the output here instead of allocating it. */
  readonly out?: TensorLike | undefined;
}

/** Output and row-wise log-sum-exp (natural logarithm), shape [..., heads, queryLength]. */
export interface AttentionWithLse<Out = Tensor, Lse = Out> {
  out: Out;
  lse: Lse;
}

/** What {@link Runtime.scaledDotProductAttentionBackward} takes: operands, results and options of the forward call. */
export interface AttentionBackwardInputs extends Omit<AttentionOptions, "returnLse" | "out"> {
  /** Gradient of the output, of its shape. */
  readonly dOut: TensorLike;
  /** Gradient of the log-sum-exp, where that was used too. */
  readonly dLse?: TensorLike | undefined;
  readonly query: TensorLike;
  readonly key: TensorLike;
  readonly value: TensorLike;
  /** The output of the forward call. */
  readonly out: TensorLike;
  /** The log-sum-exp of the forward call (`returnLse: true`). */
  readonly lse: TensorLike;
  /** Return the gradient of an additive attnMask, of its shape. Default false. */
  readonly returnDAttnMask?: boolean | undefined;
  /** Return the gradient of the sinks. Default false. */
  readonly returnDSinks?: boolean | undefined;
}

/** Gradients, each of the shape of what it is the gradient of. */
export interface AttentionGradients<T = Tensor> {
  dQuery: T;
  dKey: T;
  dValue: T;
  /** With returnDAttnMask. */
  dAttnMask?: T;
  /** With returnDSinks. */
  dSinks?: T;
}

/** One part of attention over some of the keys, as returnLse gives it. */
export interface AttentionPart {
  readonly out: TensorLike;
  readonly lse: TensorLike;
}

/** Options of mergeAttention. */
export interface MergeAttentionOptions {
  /** Layout of the outputs; lse is [..., heads, queryLength] in both. Default "bhld". */
  readonly layout?: Layout | undefined;
}

/** Options of {@link Runtime.matmul}: out = alpha * op(a) @ op(b) + beta * c. */
export interface MatmulOptions {
  /** Read a as its transpose over the last two axes. Default false. */
  readonly transposeA?: boolean | undefined;
  /** Read b as its transpose over the last two axes. Default false. */
  readonly transposeB?: boolean | undefined;
  /** Factor on the product. Default 1. */
  readonly alpha?: number | undefined;
  /** Factor on c. Default 1 where c is given. 0 never reads c. */
  readonly beta?: number | undefined;
  /** Added to the product; broadcast one way to the shape of the result. */
  readonly c?: TensorLike | undefined;
  /** Write the result here instead of allocating it. */
  readonly out?: TensorLike | undefined;
}

/** What matmulBackward takes: the gradient of the result, and the operands and options of the matmul that gave it. */
export interface MatmulBackwardInputs extends Omit<MatmulOptions, "out"> {
  /** Gradient of the result, of its shape. */
  readonly dOut: TensorLike;
  readonly a: TensorLike;
  readonly b: TensorLike;
}

/** Gradients of the operands of matmul, each of the shape of its operand. */
export interface MatmulGradients<T = Tensor> {
  dA: T;
  dB: T;
  /** Where c was given. */
  dC?: T;
}

/** Options of softmax and logSoftmax, and of their gradients. */
export interface SoftmaxOptions {
  /** Axis that sums to one; negative counts from the end. Default -1. */
  readonly axis?: number | undefined;
  /** Write the result here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Options of logSumExp. */
export interface LogSumExpOptions {
  /** Axis or axes to reduce; negative counts from the end. Default -1. An empty list reduces nothing. */
  readonly axis?: number | readonly number[] | undefined;
  /** Keep the reduced axes with length 1. Default false. */
  readonly keepDims?: boolean | undefined;
  /** Write the result here instead of allocating it. */
  readonly out?: TensorLike | undefined;
}

/** Options of the elementwise operations. */
export interface ElementwiseOptions {
  /** Write the result here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Options of gelu. */
export interface GeluOptions extends ElementwiseOptions {
  /** "none" (default): by the error function. "tanh": the approximation of Hendrycks and Gimpel. */
  readonly approximate?: "none" | "tanh" | undefined;
}

/** Options of rmsNorm. */
export interface RmsNormOptions {
  /** Factor on each element after the division, shape x.shape.slice(axis). Default: none. */
  readonly weight?: TensorLike | undefined;
  /** First of the axes that are normalised together, up to the last; negative counts from the end. Default -1. */
  readonly axis?: number | undefined;
  /** Added to the mean of the squares, 0 or more. Default 2 ** -23, as in PyTorch. */
  readonly eps?: number | undefined;
  /** Write the result here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Options of layerNorm. */
export interface LayerNormOptions {
  /** Factor on each normalised element, shape x.shape.slice(axis). Default: none. */
  readonly weight?: TensorLike | undefined;
  /** Added after the weight, shape x.shape.slice(axis). Default: none. */
  readonly bias?: TensorLike | undefined;
  /** First of the axes that are normalised together, up to the last; negative counts from the end. Default -1. */
  readonly axis?: number | undefined;
  /** Added to the variance, 0 or more. Default 1e-5. */
  readonly eps?: number | undefined;
  /** Return mean and reciprocal standard deviation beside the output. Default false. */
  readonly returnStats?: boolean | undefined;
  /** Write the output here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Output of layerNorm with its statistics, shape [...x.shape.slice(0, axis), 1, ..., 1]. */
export interface LayerNormWithStats<Out = Tensor, Stats = Out> {
  out: Out;
  /** Mean of each row. */
  mean: Stats;
  /** 1 / sqrt(variance + eps) of each row. */
  rstd: Stats;
}

/** Options of rotaryEmbedding. */
export interface RotaryOptions {
  /** Row of cos and sin for each token: one entry for each of length tokens, or for those of each batch entry. */
  readonly positionIds?: Int32Array | undefined;
  /** Without positionIds token i stands at position i + positionOffset. Default 0. */
  readonly positionOffset?: number | undefined;
  /** Pairs are neighbours, (0, 1), (2, 3), ... Default false: element j of the first half with j of the second. */
  readonly interleaved?: boolean | undefined;
  /** Leading elements of a row that turn; the others pass through. Even. Default: all. */
  readonly rotaryDim?: number | undefined;
  /** "bhld" (default) [batch, heads, length, headDim]; "blhd" [batch, length, heads, headDim]. */
  readonly layout?: Layout | undefined;
  /** Write the result here instead of allocating it; may be the input itself. */
  readonly out?: TensorLike | undefined;
}

/** Options of rotaryTables. */
export interface RotaryTablesOptions {
  /** Wavelengths are 2 pi base ** (2 j / rotaryDim). Default 10000. */
  readonly base?: number | undefined;
  /** Position of row 0. Default 0. */
  readonly offset?: number | undefined;
}

/** Cosines and sines of the angles of each position, [length, rotaryDim / 2]. */
export interface RotaryTables {
  cos: Tensor;
  sin: Tensor;
}

/** The binaries one source is compiled to. */
export type Variant = "simd" | "relaxed";

/** Options of {@link createRuntime} and {@link createRuntimeSync}. */
export interface RuntimeOptions {
  /** "auto" (default) takes relaxed SIMD where the engine has it. Asking for one by name fails where it cannot run. */
  readonly variant?: Variant | "auto" | undefined;
  /** The same bits on every engine: picks the simd variant. Default false. */
  readonly deterministic?: boolean | undefined;
  /** A compiled module or its bytes, in place of those shipped inside. */
  readonly module?: WebAssembly.Module | Uint8Array | ArrayBuffer | undefined;
  /** Upper bound of the Wasm memory in bytes. Default, and most: 4 GiB less one page of 64 KiB. */
  readonly maxMemoryBytes?: number | undefined;
}

/** What runs, and why nothing better. */
export interface RuntimeInfo {
  /** What computes. */
  backend: "wasm";
  /** The binary that runs. */
  variant: Variant;
  /** Threads that share one call. */
  threads: number;
  /** Bytes of Wasm memory held now. */
  memoryBytes: number;
  /** One sentence for each better choice that was not taken. */
  reasons: string[];
}

// What multiHeadAttention takes.
import type { AttentionOptions } from "./attention.ts";
import type { RotaryOptions } from "./layers.ts";
import type { TensorLike } from "./tensor.ts";

/** Order of the axes of a weight: "oi" [outputs, inputs], as in PyTorch; "io" [inputs, outputs], as in Keras and JAX. */
export type WeightLayout = "oi" | "io";

/** Weights of multiHeadAttention; shapes as of `weightLayout: "oi"`, the axes of a weight swapped for "io". */
export interface ProjectionWeights {
  /** Query, key and value projections in one, [heads D + 2 kvHeads D, E]. In place of the three that follow. */
  readonly inProjWeight?: TensorLike | undefined;
  /** [heads D, E of query]. */
  readonly qProjWeight?: TensorLike | undefined;
  /** [kvHeads D, E of key]. */
  readonly kProjWeight?: TensorLike | undefined;
  /** [kvHeads Dv, E of value]. */
  readonly vProjWeight?: TensorLike | undefined;
  /** The biases of query, key and value in one, in that order, with either form of the weights. */
  readonly inProjBias?: TensorLike | undefined;
  /** [heads D]. */
  readonly qProjBias?: TensorLike | undefined;
  /** [kvHeads D]. */
  readonly kProjBias?: TensorLike | undefined;
  /** [kvHeads Dv]. */
  readonly vProjBias?: TensorLike | undefined;
  /** [outputs, heads Dv]. */
  readonly outProjWeight: TensorLike;
  /** [outputs]. */
  readonly outProjBias?: TensorLike | undefined;
}

/** Rotary position embedding of the query and key heads: tables, and the options of rotaryEmbedding. */
export interface HeadRotary extends Omit<RotaryOptions, "layout" | "out"> {
  readonly cos: TensorLike;
  readonly sin: TensorLike;
}

/** Options of {@link Runtime.multiHeadAttention}; those of attention mean there what they mean here. */
export interface MultiHeadAttentionOptions
  extends ProjectionWeights,
    Omit<AttentionOptions, "layout" | "returnLse" | "out"> {
  /** Heads of the query. */
  readonly numHeads: number;
  /** Heads of key and value, which divide numHeads: grouped-query attention. Default numHeads. */
  readonly numKvHeads?: number | undefined;
  /** Order of the axes of every weight. Default "oi". */
  readonly weightLayout?: WeightLayout | undefined;
  /** Turns query and key heads by their positions; self-attention only. Default: none. */
  readonly rotary?: HeadRotary | undefined;
  /** Write the result here instead of allocating it; may be query, key or value. */
  readonly out?: TensorLike | undefined;
}

// Tensors as they come in and go out.

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

/** Order of the axes of query, key, value and output. */
export type Layout = "bhld" | "blhd";

// The one argument of the attention kernel. TypeScript fills it through the offsets that index.ts exports, which the
// compiler computes, so no offset is written twice; the strides of an operand stand in a row: batch, head, row. Every
// field is 4 bytes; strides and lengths count elements.

@unmanaged
export class AttentionParams {
  query: usize; // float32 [batch, numHeads, lq, d], by the strides below
  key: usize; // float32 [batch, numKvHeads, lk, d]; of a cache kvType [batch, numKvHeads, kvCapacity, d], see staging
  value: usize; // float32 [batch, numKvHeads, lk, dv]; of a cache kvType [batch, numKvHeads, kvCapacity, dv]
  out: usize; // float32 [batch, numHeads, lq, dv]
  lse: usize; // float32 [batch, numHeads, lq] contiguous, or NO_LSE: not wanted
  mask: usize; // uint8 (MASK_BOOLEAN) or float32 (MASK_ADDITIVE), by the strides below
  queryOffsets: usize; // int32 [batch]: position of query 0
  kvLengths: usize; // int32 [batch]: valid keys, 0 <= kvLengths[b] <= lk
  alibiSlopes: usize; // float32 [numHeads], or 0: none
  sinks: usize; // float32 [numHeads], or 0: none
  scratch: usize; // attentionScratchBytes(..) or attentionBackwardScratchBytes(..) bytes
  staging: usize; // cacheStagingBytes(..) bytes where they are those of a cache that wraps or is float16, else 0
  numHeads: i32;
  numKvHeads: i32;
  lq: i32;
  lk: i32;
  d: i32;
  dv: i32;
  queryBatch: i32;
  queryHead: i32;
  queryRow: i32;
  keyBatch: i32;
  keyHead: i32;
  keyRow: i32;
  valueBatch: i32;
  valueHead: i32;
  valueRow: i32;
  outBatch: i32;
  outHead: i32;
  outRow: i32;
  maskKind: i32; // MASK_NONE, MASK_BOOLEAN, MASK_ADDITIVE
  maskBatch: i32; // a stride of 0 broadcasts the axis
  maskHead: i32;
  maskRow: i32;
  maskColumn: i32; // 0 or 1
  windowLeft: i32; // keys j >= position - windowLeft; UNBOUNDED for all
  windowRight: i32; // keys j <= position + windowRight; causal is windowRight = 0
  alibiBatch: i32; // stride of alibiSlopes from batch to batch, 0 to share them
  kvType: i32; // FLOAT32, FLOAT16, FLOAT16_FINITE: of a cache, else FLOAT32
  kvCapacity: i32; // rows of a cache, >= 1
  scale: f32;
  softcap: f32; // 0: none
  dropoutBelow: u32; // a weight is dropped where its random 32 bits are below this
  dropoutScale: f32; // 1 / (1 - dropoutP), the factor on the weights that stay; 0 where none does
  seedLow: u32; // 64-bit key of the generator
  seedHigh: u32;
  hasDropout: i32; // 0: the four fields above are not read
}

/** The further argument of attentionBackward: what comes in, and what is added to. */
@unmanaged
export class AttentionGradients {
  dOut: usize; // float32, strides of out
  dLse: usize; // float32 [batch, numHeads, lq] contiguous, or 0: the log-sum-exp is not differentiated
  dQuery: usize; // float32, strides of query
  dKey: usize; // float32, strides of key
  dValue: usize; // float32, strides of value
  dMask: usize; // float32, strides of mask, or 0: not wanted
  dSinks: usize; // float32 [numHeads], or 0: not wanted
}

export const MASK_NONE: i32 = 0;
export const MASK_BOOLEAN: i32 = 1;
export const MASK_ADDITIVE: i32 = 2;

export const FLOAT32: i32 = 0;
export const FLOAT16: i32 = 1;
export const FLOAT16_FINITE: i32 = 2; // no Infinity, no NaN, and of subnormals no more than SUBNORMAL_SHARE

/** No address of a float. 0 may be one where a part of the heads is computed: it belongs to the first head of all. */
export const NO_LSE: usize = 1;

/** A window side without end: larger than any length, small enough that position + UNBOUNDED does not overflow. */
export const UNBOUNDED: i32 = 1 << 29;

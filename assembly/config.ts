// Tuning constants, all of them. Exported as Wasm globals, so TypeScript reads them and never repeats them.
// Each names the bench that chose it, or the test that holds what it bounds; NR and READ_SLACK are no knobs.
// No @inline here: re-exporting an @inline constant crashes asc 0.28.20.

/**
 * Rows of a register tile. MR x NR/4 accumulators, NR/4 vectors of B and one broadcast must fit the 15 xmm registers an
 * engine can allocate on x86-64 (the 16th is its scratch): 5*2 + 2 + 1 = 13, and 6*2 + 2 + 1 = 15 in the relaxed build,
 * whose fused multiply-add needs no register for the product. npm run bench -- gemm
 */
export const MR: i32 = ASC_FEATURE_RELAXED_SIMD ? 6 : 5;

/** Columns of a register tile: two 128-bit vectors. Not a knob: the kernels spell it as 8, 16, 32 and << 5. */
export const NR: i32 = 8;

/**
 * Depth of a packed panel of B, a multiple of the 8 steps that microkernel.ts unrolls: KC x NR floats = 8 KiB, a sixth
 * of a 48 KiB L1 cache. npm run bench -- gemm
 */
export const KC: i32 = 256;

/**
 * Rows of A walked while one panel of B stays in L1: MC x KC floats = 60 KiB of L2, a multiple of MR (5, 6). Wide rows
 * of A and C are a page each, and a first-level TLB holds 96: 6 to 10 % less time than 120 rows from 1000 x 1000 on;
 * 24 to 48 are as good. npm run bench -- gemm
 */
export const MC: i32 = 60;

/** Columns of B packed at once: KC x NC floats = 1 MiB, half of a 2 MiB L2 cache. npm run bench -- gemm */
export const NC: i32 = 1024;

/**
 * Up to this many elements (64 KiB) B is read in place when its rows are contiguous: packing would not pay.
 * npm run bench -- gemm
 */
export const DIRECT_SIZE: i32 = 16384;

/** Up to this many rows of A, B is read once where it stands. npm run bench -- gemm */
export const FEW_ROWS: i32 = 32;

/**
 * Sums of few rows kept at a time: 64 KiB of L2. B is then read in longer runs, which the prefetcher follows: 7 % less
 * time than 16 KiB of L1 for 8 to 24 rows and a B that is in no cache. npm run bench -- gemm
 */
export const FEW_ROWS_SUMS: i32 = 16384;

/**
 * Rows ahead of those being added whose lines are asked for: 8 KiB of values of 128 floats. One query over 2048 keys
 * that come from memory takes 2 to 7 % less time; 32 and 64 rows are as good. npm run bench -- cache
 */
export const TOUCH_ROWS: i32 = 16;

/**
 * Query rows that share one pass over the keys: BLOCK_Q/NR panels reuse a block of K and V while it is in cache.
 * npm run bench -- attention
 */
export const BLOCK_Q: i32 = 64;

/**
 * Keys of one step of the online softmax: a multiple of MR (5, 6), of 8 (NR, and the steps that microkernel.ts unrolls)
 * and of the 8 or 16 keys of dotRows; scores and bias, BLOCK_K x NR floats each, stay in L1. 120 and 144 cost 2 to 5 %
 * more, 288 to 480 as much. npm run bench -- attention
 */
export const BLOCK_K: i32 = 240;

/**
 * Keys of one step of the backward: a multiple of MR (5, 6) and of the 8 steps that microkernel.ts unrolls. Weights and
 * their gradients, BACKWARD_K x BLOCK_Q floats each, share L2 with the block of queries. npm run bench -- backward
 */
export const BACKWARD_K: i32 = 120;

/**
 * Where a row's |lse| is larger, the backward sums its weights anew: half an ulp of lse, which is the relative error of
 * every weight exp(s - lse), is 5e-7 from here on. Costs a sixth of such a block of queries. test/attention-backward
 */
export const EXACT_LSE: f32 = 16;

/**
 * Up to this share of it, an lse that was given may differ from that of the sums made anew, and is of the same keys: 8
 * to 16 ulp, more than rounding makes in any order and build. Where it takes in further keys that add less, weights
 * are wrong by a share of 1e-6 |lse| at most. test/attention-backward
 */
export const SAME_LSE: f32 = 1e-6;

/**
 * Up to this many queries a head goes without tiles of 8, half of which would be empty; one alone, whatever its keys.
 * npm run bench -- attention
 */
export const FEW_QUERIES: i32 = 4;

/**
 * Elements of K of a head from which several queries go without tiles: what they save is in reading it.
 * npm run bench -- attention
 */
export const FEW_QUERIES_SIZE: i32 = 512;

/**
 * Up to this many rows of queries read a float16 cache where it stands; more of them share what is widened once.
 * npm run bench -- cache
 */
export const HALF_ROWS: i32 = 3;

/**
 * Rows of a float16 cache that few queries widen at a time: 24 KiB of 128 floats stay in L1 until they are read. A
 * multiple of the 8 or 16 keys of dotRows that divides BLOCK_K. npm run bench -- cache
 */
export const STAGED_ROWS: i32 = 48;

/**
 * Up to this share of subnormals the halves of a cache are FLOAT16_FINITE: read where they stand, or widened without
 * care. A subnormal half is then a subnormal float32, with which processors compute a hundred times slower; from here
 * on widening with care costs less. test/key-value-cache
 */
export const SUBNORMAL_SHARE: f64 = 0.01;

/**
 * Bytes that a kernel may read, never write, past the end of a tensor. The most that one does is 28; this is a whole
 * block of the allocator.
 */
export const READ_SLACK: i32 = 64;

// The export list is the ABI.
//
// 1. A pointer is a byte address (usize; `>>> 0` in JavaScript). Tensors are 4-byte aligned, a boolean mask is bytes,
//    scratch and params are 16-byte aligned. Strides count elements.
// 2. Dense kernels take BLAS order (m, n, k, alpha, a, .., b, .., beta, c, ldc); beta = 0 never reads C.
// 3. Attention takes one AttentionParams*, its backward an AttentionGradients* too; their field offsets are exported
//    here from the compiler.
// 4. Each kernel's header states what it reads, writes and needs as scratch; `..ScratchBytes` computes the latter.
// 5. A work range [begin, end) comes last, so that callers may split work without the kernel knowing.
// 6. Memory from heapBase() on belongs to the caller, who keeps READ_SLACK readable bytes after the last tensor.
// 7. Kernels allocate nothing, keep no state and validate nothing: TypeScript does, before a pointer gets here.
// 8. The module imports nothing (the debug build: env.abort, for its assertions).
import { AttentionGradients, AttentionParams } from "./params";

export { MR, NR, KC, MC, NC, DIRECT_SIZE, FEW_ROWS, FEW_ROWS_SUMS } from "./config";
export { BLOCK_Q, BLOCK_K, BACKWARD_K, FEW_QUERIES, FEW_QUERIES_SIZE, EXACT_LSE, SAME_LSE } from "./config";
export { HALF_ROWS, STAGED_ROWS, SUBNORMAL_SHARE, READ_SLACK } from "./config";
export { MASK_NONE, MASK_BOOLEAN, MASK_ADDITIVE, UNBOUNDED, NO_LSE } from "./params";
export { FLOAT32, FLOAT16, FLOAT16_FINITE } from "./params";
export { exp } from "./exp";
export { scale } from "./scale";
export { add } from "./add";
export { relu, gelu, geluTanh } from "./activation";
export { SOFTMAX, LOG_SOFTMAX, LOG_SUM_EXP, softmaxRows, softmaxColumns } from "./softmax";
export { LAYER_NORM, RMS_NORM, norm } from "./norm";
export { rotary } from "./rotary";
export { softmaxBackwardRows, softmaxBackwardColumns } from "./softmax-backward";
export { gemm, gemmScratchBytes } from "./gemm";
export { attention, attentionScratchBytes, attentionWorkItems } from "./attention";
export { attentionBackward, attentionBackwardScratchBytes, attentionBackwardWorkItems } from "./attention-backward";
export { cacheAppend, cacheStagingBytes } from "./cache";

/** Goes up with every release that changes this list or what a part of it means; src/instance.ts takes no other. */
export const ABI: i32 = 1;

/** 1 in the build that uses relaxed SIMD. */
export const RELAXED: i32 = i32(ASC_FEATURE_RELAXED_SIMD);

/** First byte that is not static data: memory from here on is the caller's. */
export function heapBase(): usize {
  return __heap_base;
}

export const paramsSize: usize = offsetof<AttentionParams>();
export const paramsQuery: usize = offsetof<AttentionParams>("query");
export const paramsKey: usize = offsetof<AttentionParams>("key");
export const paramsValue: usize = offsetof<AttentionParams>("value");
export const paramsOut: usize = offsetof<AttentionParams>("out");
export const paramsLse: usize = offsetof<AttentionParams>("lse");
export const paramsMask: usize = offsetof<AttentionParams>("mask");
export const paramsQueryOffsets: usize = offsetof<AttentionParams>("queryOffsets");
export const paramsKvLengths: usize = offsetof<AttentionParams>("kvLengths");
export const paramsAlibiSlopes: usize = offsetof<AttentionParams>("alibiSlopes");
export const paramsSinks: usize = offsetof<AttentionParams>("sinks");
export const paramsScratch: usize = offsetof<AttentionParams>("scratch");
export const paramsStaging: usize = offsetof<AttentionParams>("staging");
export const paramsNumHeads: usize = offsetof<AttentionParams>("numHeads");
export const paramsNumKvHeads: usize = offsetof<AttentionParams>("numKvHeads");
export const paramsLq: usize = offsetof<AttentionParams>("lq");
export const paramsLk: usize = offsetof<AttentionParams>("lk");
export const paramsD: usize = offsetof<AttentionParams>("d");
export const paramsDv: usize = offsetof<AttentionParams>("dv");
export const paramsQueryBatch: usize = offsetof<AttentionParams>("queryBatch");
export const paramsKeyBatch: usize = offsetof<AttentionParams>("keyBatch");
export const paramsValueBatch: usize = offsetof<AttentionParams>("valueBatch");
export const paramsOutBatch: usize = offsetof<AttentionParams>("outBatch");
export const paramsMaskKind: usize = offsetof<AttentionParams>("maskKind");
export const paramsMaskBatch: usize = offsetof<AttentionParams>("maskBatch");
export const paramsWindowLeft: usize = offsetof<AttentionParams>("windowLeft");
export const paramsWindowRight: usize = offsetof<AttentionParams>("windowRight");
export const paramsAlibiBatch: usize = offsetof<AttentionParams>("alibiBatch");
export const paramsKvType: usize = offsetof<AttentionParams>("kvType");
export const paramsKvCapacity: usize = offsetof<AttentionParams>("kvCapacity");
export const paramsScale: usize = offsetof<AttentionParams>("scale");
export const paramsSoftcap: usize = offsetof<AttentionParams>("softcap");
export const paramsDropoutBelow: usize = offsetof<AttentionParams>("dropoutBelow");
export const paramsDropoutScale: usize = offsetof<AttentionParams>("dropoutScale");
export const paramsSeedLow: usize = offsetof<AttentionParams>("seedLow");
export const paramsSeedHigh: usize = offsetof<AttentionParams>("seedHigh");
export const paramsHasDropout: usize = offsetof<AttentionParams>("hasDropout");

export const gradientsSize: usize = offsetof<AttentionGradients>();
export const gradientsDOut: usize = offsetof<AttentionGradients>("dOut");
export const gradientsDLse: usize = offsetof<AttentionGradients>("dLse");
export const gradientsDQuery: usize = offsetof<AttentionGradients>("dQuery");
export const gradientsDKey: usize = offsetof<AttentionGradients>("dKey");
export const gradientsDValue: usize = offsetof<AttentionGradients>("dValue");
export const gradientsDMask: usize = offsetof<AttentionGradients>("dMask");
export const gradientsDSinks: usize = offsetof<AttentionGradients>("dSinks");

// What this machine can do at best, for the benches to measure the kernels against.
//
// A ceiling lies as soon as the compiler can drop or hoist work, so:
// - every operand of every product is loaded anew in each step, from an address that moves (with two
//   operands held in registers the product is loop-invariant, and mul + add shows the rate of add alone);
// - the operands are shared as in a 2 x 5 tile of an outer product: 7 loads for 10 multiply-adds, which no
//   port of a current CPU is short of, and 10 + 3 registers of the 16 of x86-64, so that nothing spills;
// - 10 chains of additions hide the latency of 4 cycles on 2 units (8 would do);
// - the result depends on every step.

/** Vector multiply-adds of one step. */
export const STEP_MULTIPLY_ADDS: i32 = 10;
/** Bytes by which the operands move in one step. */
export const STEP_BYTES: i32 = 16;
/** Bytes read beyond the last step. */
export const STEP_OVERHANG: i32 = 112;

@inline
function multiplyAdd(a: v128, b: v128, c: v128): v128 {
  if (ASC_FEATURE_RELAXED_SIMD) return f32x4.relaxed_madd(a, b, c);
  return f32x4.add(f32x4.mul(a, b), c);
}

/** First byte that the caller may use; the module itself holds no data beyond it. */
export function heapBase(): usize {
  return (__heap_base + 63) & ~63;
}

/** Runs `repeats` times over `bytes` of operands at `start`: the rate of the vector multiply-add. */
export function multiplyAdds(start: usize, bytes: usize, repeats: i32): f32 {
  let c00 = f32x4.splat(0), c01 = c00, c02 = c00, c03 = c00, c04 = c00;
  let c10 = c00, c11 = c00, c12 = c00, c13 = c00, c14 = c00;
  for (let r = 0; r < repeats; r++) {
    const end = start + bytes;
    for (let p = start; p < end; p += 16) {
      const a0 = v128.load(p);
      const a1 = v128.load(p, 16);
      const b0 = v128.load(p, 32);
      c00 = multiplyAdd(a0, b0, c00);
      c10 = multiplyAdd(a1, b0, c10);
      const b1 = v128.load(p, 48);
      c01 = multiplyAdd(a0, b1, c01);
      c11 = multiplyAdd(a1, b1, c11);
      const b2 = v128.load(p, 64);
      c02 = multiplyAdd(a0, b2, c02);
      c12 = multiplyAdd(a1, b2, c12);
      const b3 = v128.load(p, 80);
      c03 = multiplyAdd(a0, b3, c03);
      c13 = multiplyAdd(a1, b3, c13);
      const b4 = v128.load(p, 96);
      c04 = multiplyAdd(a0, b4, c04);
      c14 = multiplyAdd(a1, b4, c14);
    }
  }
  const row0 = f32x4.add(f32x4.add(f32x4.add(c00, c01), f32x4.add(c02, c03)), c04);
  const row1 = f32x4.add(f32x4.add(f32x4.add(c10, c11), f32x4.add(c12, c13)), c14);
  const sum = f32x4.add(row0, row1);
  return (
    f32x4.extract_lane(sum, 0) + f32x4.extract_lane(sum, 1) + f32x4.extract_lane(sum, 2) + f32x4.extract_lane(sum, 3)
  );
}

/**
 * Reads `bytes` (a multiple of 128) at `start` once: the rate at which memory can be read. Folds with xor,
 * which has a latency of one cycle and more units than addition, so that nothing but the loads counts.
 */
export function read(start: usize, bytes: usize): i32 {
  let x0 = i32x4.splat(0), x1 = x0, x2 = x0, x3 = x0, x4 = x0, x5 = x0, x6 = x0, x7 = x0;
  const end = start + bytes;
  for (let p = start; p < end; p += 128) {
    x0 = v128.xor(x0, v128.load(p));
    x1 = v128.xor(x1, v128.load(p, 16));
    x2 = v128.xor(x2, v128.load(p, 32));
    x3 = v128.xor(x3, v128.load(p, 48));
    x4 = v128.xor(x4, v128.load(p, 64));
    x5 = v128.xor(x5, v128.load(p, 80));
    x6 = v128.xor(x6, v128.load(p, 96));
    x7 = v128.xor(x7, v128.load(p, 112));
  }
  const low = v128.xor(v128.xor(x0, x1), v128.xor(x2, x3));
  const high = v128.xor(v128.xor(x4, x5), v128.xor(x6, x7));
  return i32x4.extract_lane(v128.xor(low, high), 0);
}

/** Copies `bytes` from `source` to `target`. */
export function copy(target: usize, source: usize, bytes: usize): void {
  memory.copy(target, source, bytes);
}

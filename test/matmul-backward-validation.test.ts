import { describe, expect, it } from "vitest";
import { createRuntimeSync } from "../src/index.ts";
import { itRefuses, zeros } from "./support.ts";

const runtime = createRuntimeSync({ variant: "simd" });

describe("matmulBackward validation", () => {
  const [a, b, dOut] = [zeros(2, 3), zeros(3, 4), zeros(2, 4)];
  itRefuses(runtime, [
    [
      "dOut",
      () => runtime.matmulBackward({ dOut: zeros(4, 2), a, b }),
      RangeError,
      /matmulBackward: dOut\.shape must be that of the result \[2, 4\], got \[4, 2\]/,
    ],
    [
      "inner lengths",
      () => runtime.matmulBackward({ dOut, a, b: zeros(4, 4) }),
      RangeError,
      /matmulBackward: inner lengths must be equal, got 3 of a \[2, 3\] and 4 of b \[4, 4\]/,
    ],
    [
      "c",
      () => runtime.matmulBackward({ dOut, a, b, c: zeros(3) }),
      RangeError,
      /matmulBackward: c must broadcast to the result \[2, 4\], got \[3\]/,
    ],
    [
      "beta without c",
      () => runtime.matmulBackward({ dOut, a, b, beta: 1 }),
      TypeError,
      /matmulBackward: beta is the factor on c, but c is not given/,
    ],
    [
      "an input that is missing",
      () => runtime.matmulBackward({ dOut, a } as never),
      TypeError,
      /matmulBackward: b must be a tensor \{ data, shape \}, got undefined/,
    ],
    [
      "an unknown option",
      () => runtime.matmulBackward({ dOut, a, b, out: a } as never),
      TypeError,
      /matmulBackward: unknown option "out"; this version knows dOut, a, b, transposeA/,
    ],
    [
      "transposeA",
      () => runtime.matmulBackward({ dOut, a, b, transposeA: 1 as never }),
      TypeError,
      /matmulBackward: transposeA must be true or false, got 1/,
    ],
  ]);

  it("gives back everything where memory is exhausted", () => {
    const small = createRuntimeSync({ variant: "simd", maxMemoryBytes: 2 ** 20 });
    using x = small.tensor([2 ** 8, 2 ** 8]);
    using y = small.tensor([2 ** 8, 2 ** 8]);
    const call = () => small.matmulBackward({ dOut: x, a: x, b: y });
    for (let i = 0; i < 3; i++) expect(call).toThrow(/matmulBackward: needs/);
    using z = small.tensor([2 ** 16]);
    expect(z.size).toBe(2 ** 16);
  });
});

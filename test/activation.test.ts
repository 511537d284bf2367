import { expect, it } from "vitest";
import { gelu, geluExact, geluTanhExact } from "./reference/activation.ts";
import type { RefTensor } from "./reference/rounding.ts";
import {
  calibrate,
  describeVariants,
  expectClose,
  expectSame,
  itRefuses,
  littered,
  randomTensor,
  ulp32,
  zeros,
} from "./support.ts";

const forms = ["none", "tanh"] as const;
const exact = { none: geluExact, tanh: geluTanhExact };

describeVariants("relu", (runtime) => {
  it("is max(x, 0) at every length, NaN and the sign of 0 kept", () => {
    for (let n = 0; n <= 19; n++) {
      const x = randomTensor([n], n + 1);
      expectSame(runtime.relu(x), { data: x.data.map((v) => Math.max(v, 0)), shape: [n] }, `length ${n}`);
      for (let at = 0; at < n; at++) {
        const odd = { data: x.data.slice(), shape: [n] };
        odd.data[at] = [NaN, Infinity, -Infinity, -0][at % 4] as number;
        const want = odd.data.map((v) => (Object.is(v, -0) ? v : Math.max(v, 0)));
        expectSame(runtime.relu(odd), { data: want, shape: [n] }, `length ${n}, at ${at}`);
      }
    }
  });

  it("keeps subnormal numbers", () => {
    const x = { data: Float32Array.of(1e-45, -1e-45, 1e-39), shape: [3] };
    expectSame(runtime.relu(x), { data: Float32Array.of(1e-45, 0, 1e-39), shape: [3] });
  });
});

describeVariants("gelu", (runtime, variant) => {
  /** Largest error in ulps of the result over n points of [low, high], and where it is. */
  const worstUlps = (approximate: "none" | "tanh", low: number, high: number, n: number) => {
    const x = Float32Array.from({ length: n }, (_, i) => low + ((high - low) * i) / (n - 1));
    const y = runtime.gelu({ data: x, shape: [n] }, { approximate }).data;
    let worst = { ulps: 0, x: low };
    for (let i = 0; i < n; i++) {
      const want = exact[approximate](x[i] as number);
      const ulps = Math.abs((y[i] as number) - want) / ulp32(want);
      if (!(ulps <= worst.ulps)) worst = { ulps, x: x[i] as number }; // NaN counts as worst
    }
    return worst;
  };

  it.each([
    ["none", -13, -6, 10],
    ["none", -6, 0, 7],
    ["none", 0, 20, 5],
    ["tanh", -8, -3, 130],
    ["tanh", -3, 0, 14],
    ["tanh", 0, 20, 3],
  ] as const)("%s is right over [%d, %d] within %d ulp", (approximate, low, high, bound) => {
    const { ulps, x } = worstUlps(approximate, low, high, 50_000);
    expect(ulps, `at x = ${x}`).toBeLessThanOrEqual(bound);
  });

  it.each(forms)("%s is the formula at twice the error of plain float32, at every length", (approximate) => {
    for (let n = 1; n <= 37; n++) {
      const x = randomTensor([n], n);
      x.data.forEach((v, i) => {
        x.data[i] = 3 * v;
      });
      const label = `gelu ${approximate} of ${n}`;
      const { want, tolerances } = calibrate(label, [x] as const, ([t], round) => [
        gelu(t, approximate, round),
      ]);
      const got = runtime.gelu(x, { approximate });
      expectClose(got, want[0] as RefTensor, tolerances[0] as number, label);
      const alone = runtime.gelu({ data: x.data.slice(n - 1), shape: [1] }, { approximate });
      expect(alone.data[0], "wherever it stands").toBe(got.data[n - 1]);
    }
  });

  it.each(forms)("%s has the limits of the formula at its ends", (approximate) => {
    const x = Float32Array.of(0, -0, Infinity, -Infinity, NaN, 3.4e38, -3.4e38, -50, 1e-45, -1e-45, 1e-30);
    const want = Float32Array.of(0, -0, Infinity, 0, NaN, 3.4e38, 0, 0, 0, 0, 5e-31);
    const got = runtime.gelu({ data: x, shape: [11] }, { approximate });
    expectClose(got, { data: want, shape: [11] }, 1e-37);
    expect(Object.is(got.data[1], -0)).toBe(true);
  });

  it("is by the error function without an option, keeps the shape, and takes empty tensors", () => {
    const x = randomTensor([2, 1, 3], 5);
    expectSame(runtime.gelu(x), runtime.gelu(x, { approximate: "none" }));
    expect(runtime.gelu(x).shape).toEqual([2, 1, 3]);
    expectSame(runtime.gelu(zeros(0, 3)), zeros(0, 3));
    expectSame(littered(variant, NaN).gelu(x), runtime.gelu(x));
  });
});

describeVariants("relu and gelu", (runtime) => {
  const operations = [
    ["relu", runtime.relu],
    ["gelu", runtime.gelu],
  ] as const;

  it.each(operations)("%s writes into out, which may be the input", (_, apply) => {
    const x = randomTensor([3, 7], 1);
    const want = apply(x);
    const out = { data: new Float32Array(21).fill(NaN), shape: [3, 7] };
    expect(apply(x, { out })).toBe(out);
    expectSame(out, want);
    using resident = runtime.tensor(x.shape, x.data);
    using fresh = apply(resident);
    expectSame({ data: fresh.data, shape: [...fresh.shape] }, want);
    apply(resident, { out: resident });
    expectSame({ data: resident.data, shape: [...resident.shape] }, want);
  });

  itRefuses(runtime, [
    [
      "approximate",
      () => runtime.gelu(zeros(2), { approximate: "erf" as never }),
      TypeError,
      /gelu: approximate must be "none" or "tanh", got "erf"/,
    ],
    [
      "an unknown option of gelu",
      () => runtime.gelu(zeros(2), { axis: 0 } as never),
      TypeError,
      /gelu: unknown option "axis"; this version knows approximate, out/,
    ],
    [
      "an unknown option of relu",
      () => runtime.relu(zeros(2), { approximate: "tanh" } as never),
      TypeError,
      /relu: unknown option "approximate"; this version knows out/,
    ],
    [
      "out of another shape",
      () => runtime.relu(zeros(2), { out: zeros(3) }),
      RangeError,
      /relu: out\.shape must be \[2\], got \[3\]/,
    ],
  ]);
});

// Which of the shipped modules this engine runs, by asking it to validate the module itself: never by version.
import { relaxed, simd } from "#wasm";
import type { ModuleSource } from "./instance.ts";
import type { RuntimeOptions, Variant } from "./types/runtime.ts";

/** A module to instantiate, and one sentence for each better choice that was not taken. */
export interface Choice {
  source: ModuleSource;
  reasons: string[];
}

const shipped: Record<Variant, (() => Uint8Array) | WebAssembly.Module> = { simd, relaxed };
const sources: { [variant in Variant]?: ModuleSource } = {};

/** The bytes or compiled module of a variant; decoded once. */
function sourceOf(variant: Variant): ModuleSource {
  const module = shipped[variant];
  const source = sources[variant] ?? (typeof module === "function" ? module() : module);
  sources[variant] = source;
  return source;
}

/** True if the engine has every instruction of the variant. A module that is compiled already has passed. */
function runs(variant: Variant): boolean {
  if (typeof WebAssembly === "undefined") return false;
  const source = sourceOf(variant);
  return source instanceof Uint8Array ? WebAssembly.validate(source as BufferSource) : true;
}

function rejectUnsupported(fn: string, variant: Variant): never {
  throw new Error(
    variant === "relaxed"
      ? `${fn}: variant "relaxed" needs relaxed SIMD, which this engine does not have; "auto" or "simd" run here`
      : "wasm-attention: this engine has no WebAssembly SIMD (needs Node 16.4, Chrome 91, Firefox 89, Safari 16.4 or newer)",
  );
}

/** Chooses among the shipped modules. */
export function chooseVariant(fn: string, options: RuntimeOptions): Choice {
  const asked = options.variant ?? "auto";
  if (options.deterministic && asked === "relaxed") {
    throw new TypeError(`${fn}: deterministic: true is the "simd" variant, but variant is "relaxed"`);
  }
  const isFree = asked === "auto" && !options.deterministic;
  if (isFree && runs("relaxed")) return { source: sourceOf("relaxed"), reasons: [] };
  const variant = asked === "auto" ? "simd" : asked;
  if (!runs(variant)) rejectUnsupported(fn, variant);
  const why = isFree
    ? "this engine does not have it"
    : asked === "auto"
      ? "deterministic results were asked for"
      : 'variant "simd" was asked for';
  return {
    source: sourceOf(variant),
    reasons: variant === "simd" ? [`relaxed SIMD is not used: ${why}`] : [],
  };
}

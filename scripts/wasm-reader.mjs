import binaryen from "binaryen";

/** Budget of each shipped binary, raw. In the JavaScript it is text (src/wasm-text.ts), 3 % longer. */
export const maxWasmBytes = 60_000;

/**
 * What a binary asks of its engine and host.
 * @param {Uint8Array} bytes
 * @returns {{ imports: string[], relaxedOpcodes: string[] }} imports as "module.name" and the distinct relaxed SIMD opcodes
 */
export function inspectWasm(bytes) {
  const module = binaryen.readBinary(bytes);
  const text = module.emitText();
  module.dispose();
  const imports = [...text.matchAll(/^ *\(import "(.*?)" "(.*?)"/gm)].map(
    ([, from, name]) => `${from}.${name}`,
  );
  const relaxedOpcodes = new Set(text.match(/\b[vif]\d+(x\d+)?\.relaxed_\w+/g));
  return { imports, relaxedOpcodes: [...relaxedOpcodes].sort() };
}

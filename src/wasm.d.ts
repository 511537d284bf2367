/** What "#wasm" gives: the shipped modules, as functions that decode inline text or as compiled by the platform. */
export declare const simd: (() => Uint8Array) | WebAssembly.Module;
export declare const relaxed: (() => Uint8Array) | WebAssembly.Module;

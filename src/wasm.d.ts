/** What "#wasm" gives: the shipped modules, inline as base64 text or compiled by the platform. */
export declare const simd: string | WebAssembly.Module;
export declare const relaxed: string | WebAssembly.Module;

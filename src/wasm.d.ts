/** What "#wasm" gives: the shipped modules, as what decodes the text inside the JavaScript or compiled by the platform. */
export declare const simd: (() => Uint8Array) | WebAssembly.Module;
export declare const relaxed: (() => Uint8Array) | WebAssembly.Module;

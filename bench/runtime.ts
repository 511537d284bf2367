// What is measured is the package as it is published, by its own name. From bench/peers, which has a
// package.json of its own, that name does not resolve: there it comes from here.
export { createRuntimeSync } from "wasm-attention";

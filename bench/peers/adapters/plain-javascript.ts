import { plainAttention, plainMatmul, plainSoftmax } from "../../plain.ts";
import type { Peer } from "../peer.ts";

const peer: Peer = {
  name: "plain JavaScript",
  prepare(work, inputs, place) {
    const [first, second, third] = inputs as [Float32Array, Float32Array, Float32Array];
    if (place === "resident") return undefined;
    switch (work.operation) {
      case "attention":
        return { run: () => plainAttention(work, first, second, third) };
      case "matmul":
        return { run: () => plainMatmul(work, first, second) };
      case "softmax":
        return { run: () => plainSoftmax(work, first) };
      case "backward":
      case "sentences":
        return undefined;
    }
  },
};

export default peer;

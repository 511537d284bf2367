// Which way attention takes: tiles of 8 queries (attention.ts), or rows (decode.ts) where queries are few.
import { FEW_QUERIES, FEW_QUERIES_SIZE } from "./config";

/** Whether attention goes by rows: each of the two ways has the bits of the other. */
export function areFew(lq: i32, lk: i32, d: i32): bool {
  return lq <= 1 || (lq <= FEW_QUERIES && <i64>lk * d >= FEW_QUERIES_SIZE);
}

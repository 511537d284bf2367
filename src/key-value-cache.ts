/// <reference lib="esnext.disposable" preserve="true" />
// KeyValueCache: keys and values of the tokens so far, in Wasm memory; attention of the newest tokens against them.
import { computeAttention } from "./attention.ts";
import { inputsOf } from "./attention-problem.ts";
import { readCacheOptions } from "./cache-options.ts";
import { CacheStorage } from "./cache-storage.ts";
import type { AttendFunction } from "./operations.ts";
import { readWindow } from "./positions.ts";
import { MAX_AXIS, NONE, readInteger, readOptions, sameShape, showShape } from "./shapes.ts";
import { type Core, type Operand, readOperand } from "./tensor.ts";
import type { AttentionWithLse } from "./types/attention.ts";
import type { CacheAttentionOptions, KeyValueCacheOptions } from "./types/cache.ts";
import type { Layout, Tensor, TensorLike } from "./types/tensor.ts";

const APPEND = "KeyValueCache.append";
const ATTEND = "KeyValueCache.attend";
const TRUNCATE = "KeyValueCache.truncate";
/** Rows that a growing cache begins with. */
const LEAST_CAPACITY = 16;
const EMPTY = new Float32Array(0);
const ATTEND_OPTIONS: ReadonlySet<keyof CacheAttentionOptions> = new Set([
  "attnMask",
  "isCausal",
  "scale",
  "windowSize",
  "softcap",
  "alibiSlopes",
  "sinks",
  "returnLse",
  "out",
]);

/**
 * Keys and values of the tokens so far, in Wasm memory, for attention of the newest ones: made by keyValueCache, where
 * the options stand. Give it back by `dispose()` or `using`.
 *
 * @example
 * using cache = runtime.keyValueCache({ numKvHeads: 8, headDim: 64 });
 * cache.append(key, value); // [1, 8, newTokens, 64] each
 * const out = cache.attend(query); // query [1, heads, newTokens, 64], causal at the last positions
 */
export class KeyValueCache implements Disposable {
  /** Element type of the storage. */
  readonly dtype: "float32" | "float16";
  /** Layout of key, value, query and output. */
  readonly layout: Layout;
  readonly #core: Core;
  readonly #storage: CacheStorage;
  /** A query at position p sees keys p - #left and on. */
  readonly #left: number;
  readonly #isFixed: boolean;
  /** Positions [#first, #length) are stored. */
  #first = 0;
  #length = 0;
  #disposed = false;
  /** Counts what moves or rewrites the storage. */
  #changes = 0;

  /** @internal Use keyValueCache of a runtime, or the free function. */
  constructor(core: Core, given: KeyValueCacheOptions) {
    const options = readCacheOptions(core, given);
    this.dtype = options.shape.isHalf ? "float16" : "float32";
    this.layout = options.isBlhd ? "blhd" : "bhld";
    this.#left = options.left;
    this.#core = core;
    this.#storage = new CacheStorage(core, options.shape);
    this.#isFixed = options.capacity !== undefined;
    if (options.capacity !== undefined) this.#storage.resize("keyValueCache", options.capacity, 0, 0, 0);
  }

  /** Tokens seen: the position of the next one. */
  get length(): number {
    return this.#length;
  }

  /** Tokens there is room for now, with windowSize the newest ones; without the option `capacity` it grows. */
  get capacity(): number {
    return this.#storage.capacity;
  }

  /** Bytes of Wasm memory held. */
  get memoryBytes(): number {
    return this.#storage.keyBytes + this.#storage.valueBytes;
  }

  /** True once dispose() has given the memory back. */
  get disposed(): boolean {
    return this.#disposed;
  }

  /**
   * Adds the keys and values of new tokens: [batch, numKvHeads, newTokens, headDim] and [.., valueDim], by the layout.
   * Only these are copied, or converted.
   *
   * @throws {RangeError} for other shapes, and where the option `capacity` leaves no room; then nothing has changed.
   * @throws {TypeError} for a key or value that is no float32 tensor, and after dispose.
   */
  append(key: TensorLike, value: TensorLike): void {
    this.#checkUsable(APPEND);
    const { headDim, valueDim } = this.#storage.shape;
    const k = readOperand(this.#core, APPEND, "key", key);
    const v = readOperand(this.#core, APPEND, "value", value);
    this.#checkUsable(APPEND); // a getter may have disposed it
    const rows = k.shape.length === 4 ? k.shape[this.layout === "blhd" ? 1 : 2]! : "newTokens";
    this.#checkShape("key", k, rows, headDim);
    this.#checkShape("value", v, rows, valueDim);
    if (typeof rows === "string" || rows === 0) return;
    this.#changes++;
    this.#makeRoom(rows, this.#storage.stagedBytes(k, v));
    const end = this.#length + rows;
    const first = Math.max(this.#first, end - this.capacity);
    this.#storage.write(APPEND, k, v, this.#length, rows, first, this.layout === "blhd");
    this.#length = end;
    this.#first = first;
  }

  /**
   * Attention of the last queryLength positions against the cache: query [batch, heads, queryLength, headDim] by the
   * layout, its last row being the newest token. Causal unless `isCausal: false`. The result is resident if query is.
   *
   * @throws {RangeError} where there are more queries than tokens, or the window of one reaches behind what is stored.
   * @throws {TypeError} for an unknown option, a value of a wrong type, and after dispose.
   */
  readonly attend = ((query: TensorLike, options: CacheAttentionOptions = NONE) =>
    this.#attend(query, readOptions(ATTEND, options, ATTEND_OPTIONS))) as AttendFunction;

  /**
   * Drops the tokens from position `length` on, as after rejected guesses of speculative decoding.
   *
   * @throws {RangeError} where `length` is more than there are, or with windowSize the window of the next token would
   * reach behind what is stored: back to 0, or by as many as were last appended at once, always works.
   * @throws {TypeError} for a length that is no number, and after dispose.
   */
  truncate(length: number): void {
    this.#checkUsable(TRUNCATE);
    readInteger(TRUNCATE, "length", length, 0, this.#length);
    const needed = Math.max(0, length - this.#left);
    if (length > 0 && needed < this.#first) {
      throw new RangeError(
        `${TRUNCATE}: the window of position ${length} must be stored, from key ${needed} on, got keys from ${this.#first} on`,
      );
    }
    this.#changes++;
    this.#length = length;
    if (length === 0) this.#first = 0;
    this.#storage.truncate(length);
  }

  /**
   * Drops all tokens; the memory stays for the next ones.
   *
   * @throws {TypeError} after dispose.
   */
  reset(): void {
    this.truncate(0);
  }

  /** Gives the memory back. More than once is no error. */
  dispose(): void {
    if (this.#disposed) return;
    this.#disposed = true;
    this.#changes++;
    this.#storage.free();
  }

  [Symbol.dispose](): void {
    this.dispose();
  }

  #checkUsable(fn: string): void {
    if (this.#disposed) throw new TypeError(`${fn}: the cache was disposed`);
  }

  /** [batch, numKvHeads, rows, width] by the layout. */
  #shapeOf<Rows>(rows: Rows, width: number): (number | Rows)[] {
    const { batch, numKvHeads } = this.#storage.shape;
    return this.layout === "blhd" ? [batch, rows, numKvHeads, width] : [batch, numKvHeads, rows, width];
  }

  /** Throws unless the shape has `rows`, a number or, where it has none to read, the name of that. */
  #checkShape(name: string, { shape }: Operand, rows: number | string, width: number): void {
    const want = this.#shapeOf(rows, width);
    if (sameShape(shape, want)) return;
    throw new RangeError(`${APPEND}: ${name}.shape must be ${showShape(want)}, got ${showShape(shape)}`);
  }

  /** Sees that `rows` more tokens fit, with all that the first of them sees, and the arena that copies them in. */
  #makeRoom(rows: number, arenaBytes: number): void {
    const { capacity } = this.#storage;
    const kept = Math.min(this.#length, this.#left);
    if (this.#length + rows > MAX_AXIS) {
      throw new RangeError(
        `${APPEND}: a cache takes at most ${MAX_AXIS} tokens, got ${rows} after ${this.#length}`,
      );
    }
    if (kept + rows <= capacity) return;
    if (this.#isFixed) {
      throw new RangeError(
        `${APPEND}: capacity ${capacity} must hold the new tokens and the ${kept} before them that ` +
          `${this.#isRing ? `windowSize [${this.#left}, 0] keeps` : "are there"}, got ${rows} new: ${kept + rows} in all`,
      );
    }
    const first = this.#length - kept;
    this.#storage.resize(APPEND, this.#nextCapacity(kept + rows, rows), first, this.#length, arenaBytes);
    this.#first = first;
  }

  get #isRing(): boolean {
    return this.#left < this.#core.kernels.UNBOUNDED;
  }

  /** Doubled, but a ring no larger than its window needs; blocks of keys do not wrap in one of whole blocks. */
  #nextCapacity(needed: number, rows: number): number {
    const doubled = Math.max(needed, 2 * this.capacity, LEAST_CAPACITY);
    if (!this.#isRing) return Math.min(doubled, MAX_AXIS);
    const { BLOCK_K } = this.#core.kernels;
    const capacity = Math.min(doubled, this.#left + rows);
    return capacity <= BLOCK_K ? capacity : Math.ceil(capacity / BLOCK_K) * BLOCK_K;
  }

  #attend(query: TensorLike, given: CacheAttentionOptions): Tensor | AttentionWithLse {
    this.#checkUsable(ATTEND);
    const q = readOperand(this.#core, ATTEND, "query", query);
    this.#checkUsable(ATTEND); // a getter may have disposed it
    if (q.shape.length !== 4) {
      const form = this.layout === "blhd" ? "length, heads" : "heads, length";
      throw new RangeError(
        `${ATTEND}: query must have shape [batch, ${form}, headDim], got ${showShape(q.shape)}`,
      );
    }
    const lq = q.shape[this.layout === "blhd" ? 1 : 2]!;
    const firstKey = this.#firstKey(lq);
    const { windowSize, isCausal = true, ...others } = given;
    const [left, right] = readWindow(ATTEND, windowSize, this.#core.kernels.UNBOUNDED);
    const options = {
      ...others,
      isCausal,
      windowSize: [Math.min(left, this.#left), right] as const,
      queryOffset: this.#length - lq,
      layout: this.layout,
    };
    const { keys, values, keyBytes, valueBytes, shape, capacity } = this.#storage;
    const stored = { kvType: this.#storage.kvType(this.#first), capacity: Math.max(capacity, 1), firstKey };
    const owner = this.#untilChanged();
    const k = this.#operand(keys, shape.headDim, keyBytes, owner);
    const v = this.#operand(values, shape.valueDim, valueBytes, owner);
    return computeAttention(
      this.#core,
      ATTEND,
      inputsOf(this.#core, ATTEND, q, k, v, options, stored),
      options,
    );
  }

  /** First key that the last `lq` positions see, which must be stored. */
  #firstKey(lq: number): number {
    if (lq > this.#length) {
      throw new RangeError(
        `${ATTEND}: query must have at most as many rows as the cache has tokens, got ${lq} and ${this.#length}`,
      );
    }
    const firstKey = Math.max(0, this.#length - lq - this.#left);
    if (firstKey < this.#first && lq > 0) {
      throw new RangeError(
        `${ATTEND}: the window of the first of ${lq} queries must be stored, from key ${firstKey} on, got keys from ${this.#first} on: ` +
          "attend no more queries than were last appended at once",
      );
    }
    return firstKey;
  }

  /** What says whether the storage has been moved or rewritten since. */
  #untilChanged(): { readonly disposed: boolean } {
    const now = this.#changes;
    const hasChanged = () => this.#changes !== now;
    return {
      get disposed() {
        return hasChanged();
      },
    };
  }

  /** The stored rows as an operand of attention. */
  #operand(address: number, width: number, bytes: number, owner: Operand["owner"]): Operand {
    return {
      data: EMPTY,
      shape: this.#shapeOf(this.#length, width),
      size: Math.ceil(bytes / 4),
      address,
      resident: true,
      owner,
    };
  }
}

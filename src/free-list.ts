// The free blocks of the Wasm memory, in address order. Neighbours never touch: they are merged.

export class FreeList {
  readonly #starts: number[] = [];
  readonly #sizes: number[] = [];

  /** Takes `size` bytes off the smallest block that holds them; returns where they start, or -1. */
  take(size: number): number {
    const index = this.#bestFit(size);
    if (index < 0) return -1;
    const pointer = this.#starts[index]!;
    if (this.#sizes[index] === size) {
      this.#starts.splice(index, 1);
      this.#sizes.splice(index, 1);
    } else {
      this.#starts[index] = pointer + size;
      this.#sizes[index]! -= size;
    }
    return pointer;
  }

  #bestFit(size: number): number {
    let best = -1;
    for (let i = 0; i < this.#sizes.length; i++) {
      if (this.#sizes[i]! >= size && (best < 0 || this.#sizes[i]! < this.#sizes[best]!)) best = i;
    }
    return best;
  }

  /** Bytes of the free block that ends at `end`, 0 where there is none. */
  sizeBefore(end: number): number {
    const last = this.#starts.length - 1;
    return last >= 0 && this.#starts[last]! + this.#sizes[last]! === end ? this.#sizes[last]! : 0;
  }

  /** Adds a free block, merged with the neighbours it touches. */
  insert(start: number, size: number): void {
    const starts = this.#starts;
    const sizes = this.#sizes;
    let low = 0;
    for (let high = starts.length; low < high; ) {
      const middle = (low + high) >>> 1;
      if (starts[middle]! < start) low = middle + 1;
      else high = middle;
    }
    const touchesNext = low < starts.length && start + size === starts[low];
    if (low > 0 && starts[low - 1]! + sizes[low - 1]! === start) {
      sizes[low - 1]! += size + (touchesNext ? sizes[low]! : 0);
      if (touchesNext) {
        starts.splice(low, 1);
        sizes.splice(low, 1);
      }
    } else if (touchesNext) {
      starts[low] = start;
      sizes[low]! += size;
    } else {
      starts.splice(low, 0, start);
      sizes.splice(low, 0, size);
    }
  }
}

/**
 * The part of a log that is in memory: whole frames, packed into blocks, so that many small frames need little memory.
 */

interface Block {
  readonly start: number
  readonly bytes: Buffer
  used: number
}

/** The first block is small, because most programs write little. */
const FIRST_BLOCK_BYTES = 1024
const BLOCK_BYTES = 16 * 1024

export class Blocks {
  #blocks: Block[] = []
  #start = 0
  #end = 0

  /** The bytes from position `start` up to position `end` are in memory. */
  get start(): number {
    return this.#start
  }

  get end(): number {
    return this.#end
  }

  get byteLength(): number {
    return this.#end - this.#start
  }

  /** Appends one whole frame, in two parts. A block never begins in the middle of a frame. */
  append(header: Uint8Array, payload: Uint8Array): void {
    const length = header.length + payload.length
    let block = this.#blocks.at(-1)
    if (!block || block.bytes.length - block.used < length) {
      const bytes = Buffer.allocUnsafeSlow(
        Math.max(length, this.#end === 0 ? FIRST_BLOCK_BYTES : BLOCK_BYTES),
      )
      block = { start: this.#end, bytes, used: 0 }
      this.#blocks.push(block)
    }
    block.bytes.set(header, block.used)
    block.bytes.set(payload, block.used + header.length)
    block.used += length
    this.#end += length
  }

  /** Returns the bytes from a position up to the end of its block. Returns `undefined` when they are not in memory. */
  at(position: number): Buffer | undefined {
    if (position < this.#start || position >= this.#end) return undefined
    let low = 0
    let high = this.#blocks.length - 1
    while (low < high) {
      const middle = (low + high + 1) >> 1
      if (this.#blocks[middle]!.start <= position) low = middle
      else high = middle - 1
    }
    const block = this.#blocks[low]!
    return block.bytes.subarray(position - block.start, block.used)
  }

  /** The end of the oldest block: `dropOldest` removes everything before it. */
  get oldestEnd(): number {
    const oldest = this.#blocks[0]
    return oldest ? oldest.start + oldest.used : this.#end
  }

  dropOldest(): void {
    this.#blocks.shift()
    this.#start = this.#blocks[0]?.start ?? this.#end
  }

  /** Drops all blocks, because their content is stored elsewhere or no longer needed. */
  clear(): void {
    this.#blocks = []
    this.#start = this.#end
  }
}

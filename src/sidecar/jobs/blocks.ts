/** The part of a log that is in memory: whole frames, packed into blocks, so that many small ones cost little. */

interface Block {
  readonly start: number
  readonly bytes: Buffer
  used: number
}

/** Most programs say little: the first block is small. */
const FIRST_BLOCK_BYTES = 1024
const BLOCK_BYTES = 16 * 1024

export class Blocks {
  #blocks: Block[] = []
  #start = 0
  #end = 0

  /** Positions: bytes from `start` up to `end` are here. */
  get start(): number {
    return this.#start
  }

  get end(): number {
    return this.#end
  }

  get byteLength(): number {
    return this.#end - this.#start
  }

  /** One whole frame, in two parts. A block never begins in the middle of one. */
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

  /** What is here from a position on, up to the end of its block; undefined when it is not here. */
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

  /** Where the oldest block ends: what `dropOldest` takes away reaches up to there. */
  get oldestEnd(): number {
    const oldest = this.#blocks[0]
    return oldest ? oldest.start + oldest.used : this.#end
  }

  dropOldest(): void {
    this.#blocks.shift()
    this.#start = this.#blocks[0]?.start ?? this.#end
  }

  /** All of it is elsewhere, or nobody wants it. */
  clear(): void {
    this.#blocks = []
    this.#start = this.#end
  }
}

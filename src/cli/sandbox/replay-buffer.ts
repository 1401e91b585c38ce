/**
 * Drops input from a terminal while old output is printed to it, because the user has not typed that input. Old output
 * contains questions (where is the cursor, what are you), and the terminal answers them again.
 */

/** The answer to the last question of the old output arrives within this time. */
const ANSWER_MS = 500
const ESC = 0x1b

export class ReplayBuffer {
  readonly #end: number
  readonly #nowMs: () => number
  #position = 0
  #openedAtMs: number | undefined

  /** `end` is the position in the job's log up to which output is old. */
  constructor(end: number, nowMs: () => number = () => performance.now()) {
    this.#end = end
    this.#nowMs = nowMs
    if (end > 0) return
    this.#openedAtMs = Number.NEGATIVE_INFINITY
  }

  /** Counts bytes of the log that were printed, or that are no longer stored. */
  advance(logBytes: number): void {
    this.#position += logBytes
    if (this.#position >= this.#end) this.#openedAtMs ??= this.#nowMs()
  }

  /** Returns the part of a chunk from the terminal that is for the program in the sandbox. */
  admit(chunk: Buffer): Buffer {
    if (this.#openedAtMs === undefined) return chunk.subarray(0, 0)
    if (this.#nowMs() - this.#openedAtMs > ANSWER_MS) return chunk
    // An answer begins with ESC. The user typed what comes before it.
    const answer = chunk.indexOf(ESC)
    return answer === -1 ? chunk : chunk.subarray(0, answer)
  }
}

/**
 * What a terminal sends while the past of another is played to it is not typed by a person: old output holds
 * questions (where is the cursor, what are you), and the terminal answers them once more.
 */

/** An answer to the last of the old output arrives within this time. */
const ANSWER_MS = 500
const ESC = 0x1b

export class ReplayBuffer {
  readonly #end: number
  readonly #nowMs: () => number
  #position = 0
  #openedAtMs: number | undefined

  /** `end`: the position in the job's log up to which output is old. */
  constructor(end: number, nowMs: () => number = () => performance.now()) {
    this.#end = end
    this.#nowMs = nowMs
    if (end > 0) return
    this.#openedAtMs = Number.NEGATIVE_INFINITY
  }

  /** So many bytes of the log were shown, or are not kept. */
  advance(logBytes: number): void {
    this.#position += logBytes
    if (this.#position >= this.#end) this.#openedAtMs ??= this.#nowMs()
  }

  /** What of a chunk from the terminal is for the program inside. */
  admit(chunk: Buffer): Buffer {
    if (this.#openedAtMs === undefined) return chunk.subarray(0, 0)
    if (this.#nowMs() - this.#openedAtMs > ANSWER_MS) return chunk
    // An answer begins with ESC; what was typed before it stands before it.
    const answer = chunk.indexOf(ESC)
    return answer === -1 ? chunk : chunk.subarray(0, answer)
  }
}

/** Checks the lines of a watched folder as they pass: each must be one event of limited length. */

import type { Check } from './body-stream.ts'
import { invalidResponse, parseSidecarAnswer, watchEventSchema } from './sidecar-responses.ts'

/** Fits a path, each byte of which may take six characters in JSON, and the rest of an event. */
const MAX_LINE_BYTES = 32 * 1024
const NEWLINE = 0x0a

export class WatchLines implements Check {
  readonly #doing: string
  readonly #line = Buffer.alloc(MAX_LINE_BYTES)
  #bytes = 0

  constructor(doing: string) {
    this.#doing = doing
  }

  chunk(data: Buffer): void {
    let at = 0
    while (at < data.length) {
      const newline = data.indexOf(NEWLINE, at)
      const end = newline === -1 ? data.length : newline
      if (this.#bytes + end - at > MAX_LINE_BYTES)
        throw invalidResponse(this.#doing, 'a line that is too long')
      this.#bytes += data.copy(this.#line, this.#bytes, at, end)
      if (newline === -1) return
      parseSidecarAnswer(watchEventSchema, this.#line.subarray(0, this.#bytes), this.#doing)
      this.#bytes = 0
      at = newline + 1
    }
  }

  end(): void {
    if (this.#bytes > 0) throw invalidResponse(this.#doing, 'an incomplete line')
  }
}

/** Server-sent events out of the bytes of an answer, with every buffer bounded. */
import { createParser } from 'eventsource-parser'
import type { Upstream } from './counterpart.ts'
import { ANSWER_BYTES_MAX, EVENT_CHARS_MAX } from './limits.ts'

export interface WireEvent {
  readonly name: string | undefined
  readonly data: string
}

export class EventReader {
  readonly #from: Upstream
  readonly #decoder = new TextDecoder('utf-8', { fatal: true })
  readonly #events: WireEvent[] = []
  #signsOfLife = 0
  #bytes = 0
  #fault: string | undefined
  readonly #parser = createParser({
    maxBufferSize: EVENT_CHARS_MAX,
    onEvent: ({ event, data }) => {
      this.#signsOfLife++
      this.#events.push({ name: event, data })
    },
    onComment: () => {
      this.#signsOfLife++
    },
    onError: (error) => {
      // `retry:` concerns clients that reconnect, and Craik never does.
      if (error.type === 'invalid-retry') return
      this.#fault ??=
        error.type === 'max-buffer-size-exceeded'
          ? `it sent an event of more than ${EVENT_CHARS_MAX} characters`
          : 'it sent a line that belongs to no event stream'
    },
  })

  constructor(from: Upstream) {
    this.#from = from
  }

  /** The events that this piece completes; `alive` when anything at all was completed. */
  feed(chunk: Uint8Array): { readonly events: WireEvent[]; readonly alive: boolean } {
    this.#bytes += chunk.length
    if (this.#bytes > ANSWER_BYTES_MAX)
      throw this.#from.garbage(`its answer exceeds ${ANSWER_BYTES_MAX} bytes`)
    const signsBefore = this.#signsOfLife
    this.#parser.feed(this.#decode(chunk))
    if (this.#fault !== undefined) throw this.#from.garbage(this.#fault)
    return { events: this.#events.splice(0), alive: this.#signsOfLife > signsBefore }
  }

  #decode(chunk: Uint8Array): string {
    try {
      return this.#decoder.decode(chunk, { stream: true })
    } catch {
      throw this.#from.garbage('its answer is not UTF-8')
    }
  }
}

/**
 * Splits an event stream into complete events, as bytes. Only complete events are forwarded: if the provider dies in
 * the middle of one, the client still has a valid stream, and an error event can follow.
 */

const LF = 0x0a
const CR = 0x0d

/** Real events have a few lines. */
const LINES_MAX = 10_000

export class EventBlocks {
  readonly #eventBytesMax: number
  #lines = 0
  #open = new PieceList()
  /** Whether the unfinished line contains text. */
  #lineHasText = false
  #lastWasCr = false

  constructor(eventBytesMax: number) {
    this.#eventBytesMax = eventBytesMax
  }

  /**
   * Returns the events that this chunk completes, each with its blank line. Throws RangeError when one is too long, or
   * has too many lines.
   */
  feed(chunk: Buffer): Buffer[] {
    const blocks: Buffer[] = []
    let from = 0
    let line = 0
    for (;;) {
      const end = chunk.indexOf(LF, line)
      if (end === -1) break
      const length = end - line - (end > line && chunk[end - 1] === CR ? 1 : 0)
      // A line that began in the previous chunk may already contain text, or only the CR of its line break.
      const isBlank = length === 0 && !(line === 0 && this.#lineHasText)
      line = end + 1
      this.#lineHasText = false
      this.#lastWasCr = false
      if (!isBlank) {
        if (++this.#lines > LINES_MAX) throw new RangeError('an event has too many lines')
        continue
      }
      this.#lines = 0
      blocks.push(this.#whole(chunk.subarray(from, line)))
      from = line
    }
    this.#keep(chunk, from, line)
    return blocks
  }

  /** The number of bytes after the last complete event. */
  get openBytes(): number {
    return this.#open.bytes
  }

  #whole(last: Buffer): Buffer {
    if (this.#open.bytes === 0) return last
    this.#open.add(last)
    const block = this.#open.join()
    this.#open = new PieceList()
    return block
  }

  #keep(chunk: Buffer, from: number, line: number): void {
    if (from < chunk.length) this.#open.add(chunk.subarray(from))
    if (this.#open.bytes > this.#eventBytesMax) throw new RangeError('an event is too long')
    const open = chunk.length - line
    if (open === 0) return
    // A final CR counts as text only if the next byte is not its LF.
    const endsInCr = chunk[chunk.length - 1] === CR
    this.#lineHasText ||= this.#lastWasCr || open > (endsInCr ? 1 : 0)
    this.#lastWasCr = endsInCr
  }
}

/** The number of chunks that are merged into one. */
const MERGED = 1024

/** Bytes that arrive in chunks. A chunk of one byte uses a hundred bytes of memory, so small ones are merged. */
export class PieceList {
  #merged: Buffer[] = []
  #recent: Buffer[] = []
  bytes = 0

  add(piece: Buffer): void {
    this.bytes += piece.length
    this.#recent.push(piece)
    if (this.#recent.length < MERGED) return
    this.#merged.push(Buffer.concat(this.#recent))
    this.#recent = []
  }

  /** Returns all bytes as one buffer. */
  join(): Buffer {
    const all = [...this.#merged, ...this.#recent]
    return all.length === 1 ? all[0]! : Buffer.concat(all, this.bytes)
  }
}

/** Returns an event's data lines, joined. `undefined` when it has none, such as a comment. */
export function dataOf(block: Buffer): string | undefined {
  let data: string | undefined
  for (const line of block.toString('utf8').split(/\r?\n/)) {
    if (line !== 'data' && !line.startsWith('data:')) continue
    const text = line.slice(5)
    const value = text.startsWith(' ') ? text.slice(1) : text
    data = data === undefined ? value : `${data}\n${value}`
  }
  return data
}

/** Checks that every line of an event begins with a field name or a colon. */
export function isEventStream(block: Buffer): boolean {
  return block
    .toString('utf8')
    .split(/\r?\n/)
    .every((line) => line === '' || /^\uFEFF?(?:data|event|id|retry)?(?::|$)/.test(line))
}

/**
 * Cuts an event stream into whole events, as bytes. Only whole events are passed on: where the other side dies in the
 * middle of one, what the client has is still a stream, and an error event can follow.
 */

const LF = 0x0a
const CR = 0x0d

/** Events have a few. */
const LINES_MAX = 10_000

export class EventBlocks {
  readonly #eventBytesMax: number
  #lines = 0
  #open = new PieceList()
  /** Whether the line that is open has anything in it. */
  #lineHasText = false
  #lastWasCr = false

  constructor(eventBytesMax: number) {
    this.#eventBytesMax = eventBytesMax
  }

  /** The whole events that this piece completes, each with its blank line. Throws RangeError when one is too long, or has too many lines. */
  feed(chunk: Buffer): Buffer[] {
    const blocks: Buffer[] = []
    let from = 0
    let line = 0
    for (;;) {
      const end = chunk.indexOf(LF, line)
      if (end === -1) break
      const length = end - line - (end > line && chunk[end - 1] === CR ? 1 : 0)
      // A line that began in the piece before may have had text there, or nothing but the return of its end.
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

  /** What stands between the last whole event and the end. */
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
    // A return at the very end is text only if something else than the end of its line follows.
    const endsInCr = chunk[chunk.length - 1] === CR
    this.#lineHasText ||= this.#lastWasCr || open > (endsInCr ? 1 : 0)
    this.#lastWasCr = endsInCr
  }
}

/** So many pieces become one. */
const MERGED = 1024

/** Bytes that come in pieces. A piece of one byte costs a hundred in memory, so many small ones are merged as they come. */
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

  /** All of them, as one. */
  join(): Buffer {
    const all = [...this.#merged, ...this.#recent]
    return all.length === 1 ? all[0]! : Buffer.concat(all, this.bytes)
  }
}

/** What an event says: its data lines joined; undefined: it has none, such as a comment. */
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

/** Every line of an event begins with a field's name or a colon. */
export function isEventStream(block: Buffer): boolean {
  return block
    .toString('utf8')
    .split(/\r?\n/)
    .every((line) => line === '' || /^\uFEFF?(?:data|event|id|retry)?(?::|$)/.test(line))
}

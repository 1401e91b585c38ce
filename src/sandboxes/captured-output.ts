/**
 * Captures one stream of a sandboxed command: redacts it in pieces, hashes and counts all of it, and keeps the
 * beginning.
 */
import { createHash, type Hash } from 'node:crypto'
import { StringDecoder } from 'node:string_decoder'
import { createRedactStream } from '../receipts/redaction/redact.ts'

/** In UTF-16 units. More output does not help a model. */
const KEPT_CHARACTERS = 64 * 1024

export interface CapturedText {
  /** The redacted output, or only its beginning when it is long. */
  readonly text: string
  readonly truncated: boolean
  /** The size of the whole redacted stream, in UTF-8. */
  readonly bytes: number
  readonly sha256: string
  /** The redaction rules that applied. */
  readonly labels: readonly string[]
}

export class CapturedOutput {
  readonly #decoder = new StringDecoder('utf8')
  readonly #redact = createRedactStream()
  readonly #hash: Hash = createHash('sha256')
  readonly #onText: (text: string) => void
  #text = ''
  #bytes = 0
  #truncated = false

  constructor(onText: (text: string) => void = () => {}) {
    this.#onText = onText
  }

  write(chunk: Buffer): void {
    this.#keep(this.#redact.write(this.#decoder.write(chunk)))
  }

  finish(): CapturedText {
    this.#keep(this.#redact.write(this.#decoder.end()))
    this.#keep(this.#redact.end())
    return {
      text: this.#text.toWellFormed(),
      truncated: this.#truncated,
      bytes: this.#bytes,
      sha256: this.#hash.digest('hex'),
      labels: this.#redact.labels(),
    }
  }

  #keep(text: string): void {
    if (text === '') return
    this.#bytes += Buffer.byteLength(text)
    this.#hash.update(text)
    const available = KEPT_CHARACTERS - this.#text.length
    this.#text += text.slice(0, available)
    if (text.length > available) this.#truncated = true
    this.#onText(text)
  }
}

/** The body of an answer, passed on unchanged at the speed of its reader, and checked on the way. */
import type { ClientHttp2Stream } from 'node:http2'
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { givenUp } from './ask.ts'
import { cut, LEAST_PIECE_BYTES, type Line } from './line.ts'
import { guardPieces } from './pieces.ts'

/** Looks at what passes; throws when it is not what it has to be. */
export interface Check {
  chunk(data: Buffer): void
  end(): void
}

interface BodyOptions {
  readonly line: Line
  readonly doing: string
  readonly check: Check
  readonly until: AbortSignal
  /** Fails when nothing comes for so long although the reader would take it. */
  readonly silenceMs?: number
}

export class BodyStream extends Readable {
  readonly #source: ClientHttp2Stream
  readonly #options: BodyOptions
  readonly #left = () => this.destroy(givenUp(this.#options.until, this.#options.doing))
  #silence: NodeJS.Timeout | undefined
  #ended = false

  constructor(source: ClientHttp2Stream, options: BodyOptions) {
    super()
    this.#source = source
    this.#options = options
    guardPieces(this, LEAST_PIECE_BYTES, () => this.destroy(options.line.brokeOff(options.doing)))
    // A reader that comes a moment too late finds the error in the stream; without this it would end the process.
    this.on('error', () => {})
    source.on('data', (chunk: Buffer) => this.#take(chunk))
    source.once('end', () => this.#finish())
    source.once('close', () => this.#finish())
    options.until.addEventListener('abort', this.#left, { once: true })
    if (options.until.aborted) this.#left()
    this.#listen()
  }

  override _read(): void {
    this.#source.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#silence)
    this.#options.until.removeEventListener('abort', this.#left)
    // One that both sides have ended closes by itself, and cutting makes an error each time.
    const { readableEnded, writableFinished } = this.#source
    if (error || !readableEnded || !writableFinished) cut(this.#source)
    done(error)
  }

  #take(chunk: Buffer): void {
    if (this.destroyed) return
    this.#silence?.refresh()
    try {
      this.#options.check.chunk(chunk)
    } catch (error) {
      this.destroy(error as Error)
      return
    }
    if (!this.push(chunk)) this.#source.pause()
  }

  /** Node lets a stream that was cut off end like one that is whole; its code tells them apart. */
  #finish(): void {
    if (this.#ended || this.destroyed) return
    this.#ended = true
    clearTimeout(this.#silence)
    const { line, doing, check } = this.#options
    if (!this.#source.readableEnded || this.#source.rstCode) {
      this.destroy(line.brokeOff(doing))
      return
    }
    try {
      check.end()
      this.push(null)
    } catch (error) {
      this.destroy(error as Error)
    }
  }

  #listen(): void {
    const { silenceMs, doing } = this.#options
    if (silenceMs === undefined || this.destroyed) return
    this.#silence = setTimeout(() => {
      if (!this.#source.isPaused()) {
        const what = `the sandbox fell silent for ${silenceMs} ms, asked to ${doing}`
        this.destroy(new CraikError('boundary_failed', what, { details: { brokeOff: true } }))
        return
      }
      this.#listen()
    }, silenceMs)
    this.#silence.unref()
  }
}

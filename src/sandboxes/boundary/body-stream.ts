/** The body of an answer, passed on unchanged at the speed of its reader, and checked on the way. */
import type { ClientHttp2Stream } from 'node:http2'
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { type BoundaryConnection, cut, LEAST_PIECE_BYTES } from './connection.ts'
import { guardPieces } from './pieces.ts'
import { abortError } from './sidecar-request.ts'

/** Looks at what passes; throws when it is not what it has to be. */
export interface Check {
  chunk(data: Buffer): void
  end(): void
}

interface BodyOptions {
  readonly line: BoundaryConnection
  readonly doing: string
  readonly check: Check
  readonly until: AbortSignal
  /** Fails when nothing comes for so long although the reader would take it. */
  readonly silenceMs?: number
  /** Passes on together what comes together, up to so many bytes: every piece costs each stream behind it. */
  readonly gatherBytes?: number
}

/** However small they are, no more of them are gathered: each costs far more than it holds. */
const MANY_PIECES = 64

export class BodyStream extends Readable {
  readonly #source: ClientHttp2Stream
  readonly #options: BodyOptions
  readonly #left = () => this.destroy(abortError(this.#options.until, this.#options.doing))
  #silence: NodeJS.Timeout | undefined
  #gathered: Buffer[] = []
  #gatheredBytes = 0
  #passing: NodeJS.Immediate | undefined
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
    // An empty answer that came whole with its headers is over before anybody could listen.
    if (source.readableEnded || source.destroyed) this.#finish()
    this.#listen()
  }

  override _read(): void {
    this.#source.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#silence)
    clearImmediate(this.#passing)
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
    const { gatherBytes } = this.#options
    if (gatherBytes === undefined) {
      if (!this.push(chunk)) this.#source.pause()
      return
    }
    this.#gathered.push(chunk)
    this.#gatheredBytes += chunk.length
    if (this.#gatheredBytes >= gatherBytes || this.#gathered.length >= MANY_PIECES) this.#passOn()
    // After all that was read from the socket at once.
    else this.#passing ??= setImmediate(() => this.#passOn())
  }

  #passOn(): void {
    clearImmediate(this.#passing)
    this.#passing = undefined
    if (this.#gathered.length === 0) return
    const whole = this.#gathered.length === 1 ? this.#gathered[0]! : Buffer.concat(this.#gathered)
    this.#gathered = []
    this.#gatheredBytes = 0
    if (!this.push(whole)) this.#source.pause()
  }

  /** Node lets a stream that was cut off end like one that is whole; its code tells them apart. */
  #finish(): void {
    if (this.#ended || this.destroyed) return
    this.#ended = true
    clearTimeout(this.#silence)
    const { line: connection, doing, check } = this.#options
    if (!this.#source.readableEnded || this.#source.rstCode) {
      this.destroy(connection.brokeOff(doing))
      return
    }
    try {
      check.end()
      this.#passOn()
      this.push(null)
    } catch (error) {
      this.destroy(error as Error)
    }
  }

  #listen(): void {
    const { silenceMs, doing } = this.#options
    if (silenceMs === undefined || this.#ended || this.destroyed) return
    this.#silence = setTimeout(() => {
      if (!this.#source.isPaused()) {
        const what = `cannot ${doing}: the sandbox sent nothing for ${silenceMs} ms`
        this.destroy(new CraikError('boundary_failed', what, { details: { brokeOff: true } }))
        return
      }
      this.#listen()
    }, silenceMs)
    this.#silence.unref()
  }
}

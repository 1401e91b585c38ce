/** The body of a response. It passes data on unchanged at the speed of its reader, and checks it on the way. */
import type { ClientHttp2Stream } from 'node:http2'
import { Readable } from 'node:stream'
import { CraikError } from '../../errors.ts'
import { type BoundaryConnection, cut, LEAST_PIECE_BYTES } from './connection.ts'
import { guardPieces } from './pieces.ts'
import { abortError } from './sidecar-request.ts'

/** Checks the data that passes. Throws when the data is not valid. */
export interface Check {
  chunk(data: Buffer): void
  end(): void
}

interface BodyOptions {
  readonly connection: BoundaryConnection
  readonly doing: string
  readonly check: Check
  readonly until: AbortSignal
  /** The stream fails when no data arrives for this long although the reader would accept some. */
  readonly silenceMs?: number
  /**
   * Combines chunks that arrive together, up to this many bytes, because every chunk costs time in each stream behind
   * this one.
   */
  readonly gatherBytes?: number
}

/** Craik gathers no more pieces than this, however small, because each takes far more memory than the bytes in it. */
const MAX_GATHERED_PIECES = 64

export class BodyStream extends Readable {
  readonly #source: ClientHttp2Stream
  readonly #options: BodyOptions
  readonly #onAbort = () => this.destroy(abortError(this.#options.until, this.#options.doing))
  #silence: NodeJS.Timeout | undefined
  #gathered: Buffer[] = []
  #gatheredBytes = 0
  #passing: NodeJS.Immediate | undefined
  #ended = false

  constructor(source: ClientHttp2Stream, options: BodyOptions) {
    super()
    this.#source = source
    this.#options = options
    guardPieces(this, LEAST_PIECE_BYTES, () =>
      this.destroy(options.connection.brokenStreamError(options.doing)),
    )
    // A reader that subscribes a moment too late finds the error in the stream. Without this listener the error would
    // end the process.
    this.on('error', () => {})
    source.on('data', (chunk: Buffer) => this.#take(chunk))
    source.once('end', () => this.#finish())
    source.once('close', () => this.#finish())
    options.until.addEventListener('abort', this.#onAbort, { once: true })
    if (options.until.aborted) this.#onAbort()
    // An empty response that arrived whole with its headers ends before anything can listen to it.
    if (source.readableEnded || source.destroyed) this.#finish()
    this.#listen()
  }

  override _read(): void {
    this.#source.resume()
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    clearTimeout(this.#silence)
    clearImmediate(this.#passing)
    this.#options.until.removeEventListener('abort', this.#onAbort)
    // A stream that both sides have ended closes by itself. Cutting it would cause an error each time.
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
    if (this.#gatheredBytes >= gatherBytes || this.#gathered.length >= MAX_GATHERED_PIECES) this.#passOn()
    // Waits until everything that was read from the socket at once has arrived.
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

  /** Node ends a stream that was cut off like a complete one. Only its reset code tells them apart. */
  #finish(): void {
    if (this.#ended || this.destroyed) return
    this.#ended = true
    clearTimeout(this.#silence)
    const { connection, doing, check } = this.#options
    if (!this.#source.readableEnded || this.#source.rstCode) {
      this.destroy(connection.brokenStreamError(doing))
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

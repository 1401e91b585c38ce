/** A connection into or out of a sandbox: a stream whose two directions end independently. */
import type { ClientHttp2Stream } from 'node:http2'
import { Duplex } from 'node:stream'
import { type BoundaryConnection, cut } from './connection.ts'
import { guardPieces } from './pieces.ts'

/** The sandbox chooses how many connections it opens, so each may take less memory than other streams. */
const LEAST_PIECE_BYTES = 32

/**
 * Unlike the HTTP/2 stream under it, this stream fails when it is cut off, instead of ending as if it were complete.
 */
export class JoinedStream extends Duplex {
  readonly #stream: ClientHttp2Stream
  readonly #connection: BoundaryConnection
  readonly #doing: string
  #ended = false

  constructor(stream: ClientHttp2Stream, connection: BoundaryConnection, doing: string) {
    super({ allowHalfOpen: true })
    this.#stream = stream
    this.#connection = connection
    this.#doing = doing
    const giveUp = () => this.destroy(connection.brokenStreamError(doing))
    guardPieces(stream, LEAST_PIECE_BYTES, giveUp)
    guardPieces(this, LEAST_PIECE_BYTES, giveUp)
    // The owner learns of the error when the stream ends. An error without a listener would end the process.
    this.on('error', () => {})
    stream.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) stream.pause()
    })
    stream.once('end', () => this.#finish())
    stream.once('close', () => {
      this.#finish()
      // The other end is gone, so data that is not yet written cannot arrive.
      if (!this.writableFinished) this.destroy(connection.brokenStreamError(doing))
    })
  }

  override _read(): void {
    this.#stream.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#stream.destroyed || this.#stream.closed) {
      done(this.#connection.brokenStreamError(this.#doing))
      return
    }
    this.#stream.write(chunk, () => done())
  }

  override _final(done: (error?: Error | null) => void): void {
    if (this.#stream.destroyed || this.#stream.closed) done()
    else this.#stream.end(() => done())
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    cut(this.#stream)
    done(error)
  }

  #finish(): void {
    if (this.#ended || this.destroyed) return
    this.#ended = true
    if (this.#stream.readableEnded && !this.#stream.rstCode) this.push(null)
    else this.destroy(this.#connection.brokenStreamError(this.#doing))
  }
}

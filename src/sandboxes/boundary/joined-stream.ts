/** A connection into or out of a sandbox: a stream in both directions, each with an end of its own. */
import type { ClientHttp2Stream } from 'node:http2'
import { Duplex } from 'node:stream'
import { type BoundaryConnection, cut } from './connection.ts'
import { guardPieces } from './pieces.ts'

/** How many connections there are is for the inside to choose, so they may cost less than other streams. */
const LEAST_PIECE_BYTES = 32

/** Unlike the HTTP/2 stream under it, it fails when it is cut off, instead of ending as if it were whole. */
export class JoinedStream extends Duplex {
  readonly #stream: ClientHttp2Stream
  readonly #line: BoundaryConnection
  readonly #doing: string
  #ended = false

  constructor(stream: ClientHttp2Stream, connection: BoundaryConnection, doing: string) {
    super({ allowHalfOpen: true })
    this.#stream = stream
    this.#line = connection
    this.#doing = doing
    const giveUp = () => this.destroy(connection.brokeOff(doing))
    guardPieces(stream, LEAST_PIECE_BYTES, giveUp)
    guardPieces(this, LEAST_PIECE_BYTES, giveUp)
    // Whoever has it learns of the error by its end; without a listener it would end the process.
    this.on('error', () => {})
    stream.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) stream.pause()
    })
    stream.once('end', () => this.#finish())
    stream.once('close', () => {
      this.#finish()
      // The other end is gone, so what is still to be written cannot arrive.
      if (!this.writableFinished) this.destroy(connection.brokeOff(doing))
    })
  }

  override _read(): void {
    this.#stream.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    if (this.#stream.destroyed || this.#stream.closed) {
      done(this.#line.brokeOff(this.#doing))
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
    else this.destroy(this.#line.brokeOff(this.#doing))
  }
}

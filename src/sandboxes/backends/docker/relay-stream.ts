/** The stream of one engine exec: writes go to its standard input, reads come from its standard output. */
import { Duplex } from 'node:stream'
import { CraikError } from '../../../errors.ts'
import type { DialledStream } from '../../backend.ts'

/** The engine sends a header before each piece: its output (one byte, then three zero bytes) and its length. */
const HEADER_BYTES = 8
const OUT = 1
const ERR = 2
/** Enough of standard error to see what went wrong. */
const MAX_HEARD_BYTES = 2048

/** It does not buffer: it passes each piece on as it arrives, and reads only as much as its reader consumes. */
export class RelayStream extends Duplex implements DialledStream {
  readonly #raw: Duplex
  readonly #header = Buffer.alloc(HEADER_BYTES)
  #headerBytes = 0
  /** The rest of the current piece, in bytes. */
  #left = 0
  #isOut = false
  #heard = Buffer.alloc(0)
  bytesRead = 0
  bytesWritten = 0

  constructor(raw: Duplex) {
    super({ allowHalfOpen: false })
    this.#raw = raw
    raw.on('data', (chunk: Buffer) => this.#take(chunk))
    raw.once('end', () => this.#finish())
    raw.once('close', () => this.#finish())
    raw.once('error', (cause) => {
      this.destroy(new CraikError('boundary_failed', 'the engine closed the relay to the sandbox', { cause }))
    })
    raw.pause()
  }

  /** The relay's error output, for the error that follows. */
  get output(): string {
    return this.#heard
      .toString('utf8')
      .replaceAll(/\p{C}+/gu, ' ')
      .trim()
  }

  override _read(): void {
    this.#raw.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: (error?: Error | null) => void): void {
    this.bytesWritten += chunk.length
    if (this.#raw.writable) this.#raw.write(chunk, (error) => done(error))
    else done(new CraikError('boundary_failed', 'the relay to the sandbox is closed'))
  }

  override _final(done: () => void): void {
    this.#raw.end(() => done())
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#raw.destroy()
    done(error)
  }

  #take(chunk: Buffer): void {
    for (let rest = chunk; rest.length > 0; ) {
      if (this.#left === 0) {
        const count = Math.min(HEADER_BYTES - this.#headerBytes, rest.length)
        rest.copy(this.#header, this.#headerBytes, 0, count)
        this.#headerBytes += count
        rest = rest.subarray(count)
        if (this.#headerBytes < HEADER_BYTES || this.#begin()) continue
        return
      }
      const piece = rest.subarray(0, this.#left)
      rest = rest.subarray(piece.length)
      this.#left -= piece.length
      this.#hand(piece)
    }
  }

  /** Returns false when the received bytes are not a header. */
  #begin(): boolean {
    const output = this.#header.readUInt8(0)
    this.#headerBytes = 0
    this.#left = this.#header.readUInt32BE(4)
    this.#isOut = output === OUT
    if (output === OUT || output === ERR) return true
    this.destroy(new CraikError('boundary_failed', 'the engine sent an invalid stream'))
    return false
  }

  #hand(piece: Buffer): void {
    if (!this.#isOut) {
      const available = MAX_HEARD_BYTES - this.#heard.length
      if (available > 0) this.#heard = Buffer.concat([this.#heard, piece.subarray(0, available)])
      return
    }
    this.bytesRead += piece.length
    if (!this.push(piece)) this.#raw.pause()
  }

  #finish(): void {
    if (!this.destroyed && !this.readableEnded) this.push(null)
  }
}

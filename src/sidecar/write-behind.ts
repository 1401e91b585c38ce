/**
 * A stream whose writes are taken at once. Node's HTTP/2 reads nothing while a write of its own waits: when both ends
 * of a connection have more to say than the kernel holds, each waits for the other, for ever. It takes one end that
 * always goes on reading, and this makes it so.
 */
import { Duplex } from 'node:stream'
import { LIMITS } from './protocol.ts'

/** The host's window lets half of it wait; a host that does not keep to that is waited for. */
const MAX_WAITING_BYTES = 2 * LIMITS.copyWindowBytes
/** What is passed on at a time; with less, copying files takes twice as long. */
const BUFFER_BYTES = 1024 * 1024

export class WriteBehind extends Duplex {
  readonly #inner: Duplex
  #waitingBytes = 0
  #resume: (() => void) | undefined

  constructor(inner: Duplex) {
    super({ readableHighWaterMark: BUFFER_BYTES, writableHighWaterMark: BUFFER_BYTES })
    this.#inner = inner
    inner.on('data', (chunk: Buffer) => {
      if (!this.push(chunk)) inner.pause()
    })
    inner.once('end', () => this.push(null))
    inner.once('error', (error) => this.destroy(error))
    inner.once('close', () => this.destroy())
  }

  override _read(): void {
    this.#inner.resume()
  }

  override _write(chunk: Buffer, _encoding: BufferEncoding, done: () => void): void {
    this.#send([chunk], done)
  }

  override _writev(items: readonly { readonly chunk: Buffer }[], done: () => void): void {
    const chunks = items.map(({ chunk }) => chunk)
    this.#send(chunks, done)
  }

  override _final(done: () => void): void {
    this.#inner.end(done)
  }

  override _destroy(error: Error | null, done: (error: Error | null) => void): void {
    this.#inner.destroy()
    done(error)
  }

  #send(chunks: readonly Buffer[], done: () => void): void {
    const bytes = chunks.reduce((sum, { length }) => sum + length, 0)
    this.#waitingBytes += bytes
    const sent = () => {
      this.#waitingBytes -= bytes
      if (this.#waitingBytes >= MAX_WAITING_BYTES) return
      const resume = this.#resume
      this.#resume = undefined
      resume?.()
    }
    const last = chunks.length - 1
    this.#inner.cork()
    for (const [index, chunk] of chunks.entries()) this.#inner.write(chunk, index === last ? sent : undefined)
    this.#inner.uncork()
    if (this.#waitingBytes < MAX_WAITING_BYTES) done()
    else this.#resume = done
  }
}

/**
 * A stream that accepts writes at once. Node's HTTP/2 reads nothing while one of its own writes waits. When both ends
 * of a connection have more to send than the kernel buffers, each waits for the other forever. To prevent that, one end
 * must always continue to read, and this stream makes sure of it. Both ends need it when a relay between them reads
 * nothing while it writes.
 */
import { Duplex } from 'node:stream'

/** The amount that is passed on at a time. With less, copying files takes twice as long. */
const BUFFER_BYTES = 1024 * 1024

export class WriteBehind extends Duplex {
  readonly #inner: Duplex
  readonly #maxWaitingBytes: number
  #waitingBytes = 0
  #resume: (() => void) | undefined

  /**
   * While more than `maxWaitingBytes` wait, the stream accepts nothing until the other end has read some. The HTTP/2
   * windows of both ends keep the amount below that limit.
   */
  constructor(inner: Duplex, maxWaitingBytes: number) {
    super({ readableHighWaterMark: BUFFER_BYTES, writableHighWaterMark: BUFFER_BYTES })
    this.#inner = inner
    this.#maxWaitingBytes = maxWaitingBytes
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
    const onSent = () => {
      this.#waitingBytes -= bytes
      if (this.#waitingBytes >= this.#maxWaitingBytes) return
      const resume = this.#resume
      this.#resume = undefined
      resume?.()
    }
    const last = chunks.length - 1
    this.#inner.cork()
    for (const [index, chunk] of chunks.entries())
      this.#inner.write(chunk, index === last ? onSent : undefined)
    this.#inner.uncork()
    if (this.#waitingBytes < this.#maxWaitingBytes) done()
    else this.#resume = done
  }
}

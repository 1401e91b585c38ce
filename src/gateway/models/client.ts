/** The client's side of a call: what it is sent, as fast as it reads, and whether it is still there. */
import type { ServerResponse } from 'node:http'
import type { Dialect, DialectError } from './dialects/dialect.ts'

export class Client {
  readonly #response: ServerResponse
  readonly #unreadMs: number
  readonly #gone = new AbortController()

  constructor(response: ServerResponse, unreadMs: number) {
    this.#response = response
    this.#unreadMs = unreadMs
    response.on('error', () => {})
    response.once('close', () => {
      if (!response.writableFinished) this.#gone.abort()
    })
  }

  /** It hung up before its answer was whole. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  /** Something of an answer has gone out, which nobody can take back. */
  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  begin(status: number, headers: Readonly<Record<string, string>>): void {
    // It goes out with the first bytes that follow.
    this.#response.writeHead(status, { ...headers })
  }

  /** Resolves when more may be sent. Whoever does not read for too long is put out. */
  async send(bytes: Buffer | string): Promise<void> {
    const response = this.#response
    if (this.gone.aborted || response.write(bytes)) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const timer = setTimeout(() => response.destroy(), this.#unreadMs)
    response.once('drain', resolve).once('close', resolve)
    await promise
    clearTimeout(timer)
    response.off('drain', resolve).off('close', resolve)
  }

  /** Whoever does not read what is left is put out as well. */
  end(last?: Buffer | string): void {
    if (last === undefined || this.gone.aborted) this.#response.end()
    else this.#response.end(last)
    const timer = setTimeout(() => this.#response.destroy(), this.#unreadMs).unref()
    this.#response.once('close', () => clearTimeout(timer))
  }

  /** An answer that is there as a whole. */
  answer(status: number, headers: Readonly<Record<string, string>>, body: Buffer | string): void {
    if (this.gone.aborted || this.hasBegun) return
    const length = String(Buffer.byteLength(body))
    this.#response.writeHead(status, { ...headers, 'content-length': length })
    this.end(body)
  }

  /** An error in the words of the dialect, as a body or, where the answer has begun, as the last event. */
  fail(dialect: Dialect, error: DialectError, headers: Readonly<Record<string, string>> = {}): void {
    if (!this.hasBegun) {
      this.answer(error.status, { 'content-type': 'application/json', ...headers }, dialect.errorBody(error))
      return
    }
    this.end(dialect.errorEvent(error))
  }
}

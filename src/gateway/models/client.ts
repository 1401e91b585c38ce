/** The client's side of a call: what it is sent, as fast as it reads, and whether it is still there. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { GatewayLimits } from '../limits.ts'
import { answerUnread, expectsContinue } from '../raw-answer.ts'
import type { Dialect, DialectError } from './dialects/dialect.ts'

export class Client {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #limits: GatewayLimits
  readonly #unreadMs: number
  #waitedMs = 0
  readonly #gone = new AbortController()

  constructor(request: IncomingMessage, response: ServerResponse, limits: GatewayLimits) {
    this.#request = request
    this.#response = response
    this.#limits = limits
    this.#unreadMs = limits.unreadMs
    response.on('error', () => {})
    response.once('close', () => {
      if (!response.writableFinished) this.#gone.abort()
    })
  }

  /** It hung up before its answer was whole. */
  get gone(): AbortSignal {
    return this.#gone.signal
  }

  /** It kept the gateway waiting before it read what it was sent. */
  get isSlow(): boolean {
    return this.#waitedMs >= this.#limits.slowClientMs
  }

  /** Something of an answer has gone out, which nobody can take back. */
  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  /** Nothing more of its request is to come. */
  get hasSentAll(): boolean {
    return this.#request.complete
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
    const fromMs = performance.now()
    const timer = setTimeout(() => response.destroy(), this.#unreadMs)
    response.once('drain', resolve).once('close', resolve)
    await promise
    this.#waitedMs += performance.now() - fromMs
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

  /** Tells a client that waits for it (`Expect: 100-continue`) that its body is read now. */
  awaitBody(): void {
    if (expectsContinue(this.#request)) this.#response.writeContinue()
  }

  /** An error in the words of the dialect for a request that may not be whole. Its connection ends with it. */
  refuse(dialect: Dialect, error: DialectError, headers: Readonly<Record<string, string>> = {}): void {
    if (this.gone.aborted || this.hasBegun) return
    const head = { 'content-type': 'application/json', ...headers }
    answerUnread(this.#request, this.#response, error.status, head, dialect.errorBody(error), this.#limits)
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

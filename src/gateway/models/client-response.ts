/** The client's side of a call: sends the response as fast as the client reads, and detects a disconnect. */
import type { IncomingMessage, ServerResponse } from 'node:http'
import type { GatewayLimits } from '../gateway-limits.ts'
import { answerUnread, expectsContinue } from '../raw-response.ts'
import type { DialectError, GatewayDialect } from './dialects/dialect.ts'

export class Client {
  readonly #request: IncomingMessage
  readonly #response: ServerResponse
  readonly #limits: GatewayLimits
  readonly #unreadMs: number
  #waitedMs = 0
  readonly #closed = new AbortController()

  constructor(request: IncomingMessage, response: ServerResponse, limits: GatewayLimits) {
    this.#request = request
    this.#response = response
    this.#limits = limits
    this.#unreadMs = limits.unreadMs
    response.on('error', () => {})
    response.once('close', () => {
      if (!response.writableFinished) this.#closed.abort()
    })
  }

  /** Aborts when the client disconnects before its response is complete. */
  get closeSignal(): AbortSignal {
    return this.#closed.signal
  }

  /** Whether the client delayed the call because it read too slowly. */
  get isSlow(): boolean {
    return this.#waitedMs >= this.#limits.slowClientMs
  }

  /** Whether a part of the response was sent, which cannot be undone. */
  get hasBegun(): boolean {
    return this.#response.headersSent
  }

  /** Whether the request is complete. */
  get hasSentAll(): boolean {
    return this.#request.complete
  }

  begin(status: number, headers: Readonly<Record<string, string>>): void {
    // The head is sent with the first bytes of the body.
    this.#response.writeHead(status, { ...headers })
  }

  /** Resolves when more can be sent. A client that does not read for too long is disconnected. */
  async send(bytes: Buffer | string): Promise<void> {
    const response = this.#response
    if (this.closeSignal.aborted || response.write(bytes)) return
    const { promise, resolve } = Promise.withResolvers<void>()
    const fromMs = performance.now()
    const timer = setTimeout(() => response.destroy(), this.#unreadMs)
    response.once('drain', resolve).once('close', resolve)
    await promise
    this.#waitedMs += performance.now() - fromMs
    clearTimeout(timer)
    response.off('drain', resolve).off('close', resolve)
  }

  /** A client that does not read the rest in time is disconnected too. */
  end(last?: Buffer | string): void {
    if (last === undefined || this.closeSignal.aborted) this.#response.end()
    else this.#response.end(last)
    const timer = setTimeout(() => this.#response.destroy(), this.#unreadMs).unref()
    this.#response.once('close', () => clearTimeout(timer))
  }

  /** Sends a complete response. */
  answer(status: number, headers: Readonly<Record<string, string>>, body: Buffer | string): void {
    if (this.closeSignal.aborted || this.hasBegun) return
    const length = String(Buffer.byteLength(body))
    this.#response.writeHead(status, { ...headers, 'content-length': length })
    this.end(body)
  }

  /** Tells a client with `Expect: 100-continue` to send its body. */
  awaitBody(): void {
    if (expectsContinue(this.#request)) this.#response.writeContinue()
  }

  /** Sends an error in the dialect for a possibly incomplete request, and closes the connection. */
  refuse(dialect: GatewayDialect, error: DialectError, headers: Readonly<Record<string, string>> = {}): void {
    if (this.closeSignal.aborted || this.hasBegun) return
    const head = { 'content-type': 'application/json', ...headers }
    answerUnread(this.#request, this.#response, error.status, head, dialect.errorBody(error), this.#limits)
  }

  /** Sends an error in the dialect: as the body or, after the response has begun, as the last event. */
  fail(dialect: GatewayDialect, error: DialectError, headers: Readonly<Record<string, string>> = {}): void {
    if (!this.hasBegun) {
      this.answer(error.status, { 'content-type': 'application/json', ...headers }, dialect.errorBody(error))
      return
    }
    this.end(dialect.errorEvent(error))
  }
}

/** A connection to the API that mends itself: the supervisor may die, be replaced, or be started anew at any time. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../errors.ts'
import { type ApiRequest, discard, type Endpoint, jsonOf, LostConnection, Transport } from './transport.ts'

export interface LinkOptions {
  /** Finds the supervisor, and starts it when there is none. Called again after each loss. */
  readonly connect: (until: AbortSignal | undefined) => Promise<Endpoint>
  /** How long to go on without any progress. */
  readonly timeoutMs?: number
}

/** What has been carried out already is asked again only if that changes nothing: by default, reading. */
export type LinkRequest = ApiRequest & { readonly idempotent?: boolean }

const PATIENCE_MS = 60_000
const FIRST_DELAY_MS = 10
const LAST_DELAY_MS = 1_000

export class ApiConnection {
  readonly #options: LinkOptions
  readonly #timeoutMs: number
  #transport: Promise<Transport> | undefined
  /** Of the call that opens it: whoever else waits for it goes on when that one leaves. */
  #opener: AbortSignal | undefined

  constructor(options: LinkOptions) {
    this.#options = options
    this.#timeoutMs = options.timeoutMs ?? PATIENCE_MS
  }

  /** Asks until it is answered; the answer's body is the caller's. */
  send(request: LinkRequest): Promise<IncomingMessage> {
    return this.persist(request.signal, (transport) => transport.send(request), repeatable(request))
  }

  json<T>(request: LinkRequest): Promise<T> {
    const attempt = async (transport: Transport) => jsonOf<T>(await transport.send(request))
    return this.persist(request.signal, attempt, repeatable(request))
  }

  order(request: LinkRequest): Promise<void> {
    const attempt = async (transport: Transport) => discard(await transport.send(request))
    return this.persist(request.signal, attempt, repeatable(request))
  }

  upgrade(path: string, headers: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Duplex> {
    return this.persist(signal, (transport) => transport.upgrade(path, headers, signal))
  }

  /** Repeats `attempt` while the supervisor is away, until patience ends. `progress()` in it starts patience anew. */
  async persist<T>(
    signal: AbortSignal | undefined,
    attempt: (transport: Transport, progress: () => void) => Promise<T>,
    mayRepeat: (error: Error) => boolean = () => true,
  ): Promise<T> {
    let failingSince: number | undefined
    let delayMs = FIRST_DELAY_MS
    const progress = () => {
      failingSince = undefined
      delayMs = FIRST_DELAY_MS
    }
    for (;;) {
      signal?.throwIfAborted()
      const opening = this.#open(signal)
      const opener = this.#opener
      let openedAt: number | undefined
      try {
        const transport = await opening
        openedAt = performance.now()
        return await attempt(transport, progress)
      } catch (error) {
        signal?.throwIfAborted()
        if (openedAt === undefined && opener?.aborted) continue
        if (!isAway(error)) throw error
        this.#forget(opening, false)
        if (!mayRepeat(error)) throw unknownOutcome(error)
        // Who held a request for so long was there: it is a new loss, not the same one again.
        if (openedAt !== undefined && performance.now() - openedAt > this.#timeoutMs) progress()
        failingSince ??= performance.now()
        if (performance.now() - failingSince >= this.#timeoutMs) throw unreachable(error, this.#timeoutMs)
        await sleep(delayMs, undefined, signal && { signal })
        delayMs = Math.min(delayMs * 2, LAST_DELAY_MS)
      }
    }
  }

  close(): void {
    if (this.#transport !== undefined) this.#forget(this.#transport, true)
  }

  /** The connection in use, or a new one. */
  #open(signal: AbortSignal | undefined): Promise<Transport> {
    if (this.#transport !== undefined) return this.#transport
    const opened = this.#options.connect(signal).then((endpoint) => new Transport(endpoint))
    this.#transport = opened
    this.#opener = signal
    opened.catch(() => this.#forget(opened, false))
    return opened
  }

  /** Only the one that failed: another request may have found the supervisor again meanwhile. */
  #forget(failed: Promise<Transport>, all: boolean): void {
    if (this.#transport === failed) this.#transport = undefined
    failed.then(
      (transport) => transport.close(all),
      () => {},
    )
  }
}

function repeatable({ method, idempotent = method === 'GET' }: LinkRequest): (error: Error) => boolean {
  return (error) => idempotent || !(error instanceof LostConnection && error.sent)
}

/** Gone, leaving, or another one by now, which has another token. */
function isAway(error: unknown): error is Error {
  if (error instanceof LostConnection) return true
  if (!(error instanceof CraikError)) return false
  if (error.code === 'unauthorized') return true
  // One that ends in a fault each time it is started is no reason to try for a minute.
  const { draining, slow } = error.details ?? {}
  return error.code === 'supervisor_unreachable' && (draining === true || slow === true)
}

function unreachable(cause: Error, timeoutMs: number): CraikError {
  const message = `the supervisor did not answer for ${Math.round(timeoutMs / 1000)} s`
  return new CraikError('supervisor_unreachable', message, { cause })
}

function unknownOutcome(cause: Error): CraikError {
  return new CraikError(
    'supervisor_unreachable',
    'the supervisor disconnected before it answered; the request may have been executed',
    { hint: 'check the sandboxes:  craik sandbox list', cause },
  )
}

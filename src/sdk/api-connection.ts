/** A connection to the API that repairs itself. The supervisor may die, be replaced, or be restarted at any time. */
import type { IncomingMessage } from 'node:http'
import type { Duplex } from 'node:stream'
import { CraikError } from '../errors.ts'
import { delay } from '../lib/delay.ts'
import { type ApiEndpoint, type ApiRequest, discard, jsonOf, LostConnection, Transport } from './transport.ts'

export interface ConnectionOptions {
  /** Finds the supervisor, and starts it when none runs. Called again after each lost connection. */
  readonly connect: (until: AbortSignal | undefined) => Promise<ApiEndpoint>
  /** How long to continue without any progress. */
  readonly timeoutMs?: number
}

/**
 * A request that may have been executed is repeated only if that changes nothing. By default, this is true only of GET
 * requests.
 */
export type ConnectionRequest = ApiRequest & { readonly idempotent?: boolean }

const TIMEOUT_MS = 60_000
const FIRST_DELAY_MS = 10
const LAST_DELAY_MS = 1_000

export class ApiConnection {
  readonly #options: ConnectionOptions
  readonly #timeoutMs: number
  #transport: Promise<Transport> | undefined
  /**
   * The signal of the call that opens the connection. When that call aborts, other calls that wait for the connection
   * try again.
   */
  #opener: AbortSignal | undefined

  constructor(options: ConnectionOptions) {
    this.#options = options
    this.#timeoutMs = options.timeoutMs ?? TIMEOUT_MS
  }

  /** Repeats the request until there is a response. The caller reads the response's body. */
  send(request: ConnectionRequest): Promise<IncomingMessage> {
    return this.persist(request.signal, (transport) => transport.send(request), repeatable(request))
  }

  json<T>(request: ConnectionRequest): Promise<T> {
    const attempt = async (transport: Transport) => jsonOf<T>(await transport.send(request))
    return this.persist(request.signal, attempt, repeatable(request))
  }

  sendAndDiscard(request: ConnectionRequest): Promise<void> {
    const attempt = async (transport: Transport) => discard(await transport.send(request))
    return this.persist(request.signal, attempt, repeatable(request))
  }

  upgrade(path: string, headers: Readonly<Record<string, string>>, signal?: AbortSignal): Promise<Duplex> {
    return this.persist(signal, (transport) => transport.upgrade(path, headers, signal))
  }

  /** Repeats `attempt` while the supervisor is away, until the timeout. `progress()` in it restarts the timeout. */
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
        // A supervisor that worked on a request for so long was running. So this is a new loss, not the same one again.
        if (openedAt !== undefined && performance.now() - openedAt > this.#timeoutMs) progress()
        failingSince ??= performance.now()
        if (performance.now() - failingSince >= this.#timeoutMs) throw unreachable(error, this.#timeoutMs)
        await delay(delayMs, signal)
        delayMs = Math.min(delayMs * 2, LAST_DELAY_MS)
      }
    }
  }

  close(): void {
    if (this.#transport !== undefined) this.#forget(this.#transport, true)
  }

  /** Returns the connection in use, or a new one. */
  #open(signal: AbortSignal | undefined): Promise<Transport> {
    if (this.#transport !== undefined) return this.#transport
    const opened = this.#options.connect(signal).then((endpoint) => new Transport(endpoint))
    this.#transport = opened
    this.#opener = signal
    opened.catch(() => this.#forget(opened, false))
    return opened
  }

  /**
   * Drops only the connection that failed, because another request may have found the supervisor again in the meantime.
   */
  #forget(failed: Promise<Transport>, all: boolean): void {
    if (this.#transport === failed) this.#transport = undefined
    failed.then(
      (transport) => transport.close(all),
      () => {},
    )
  }
}

function repeatable({ method, idempotent = method === 'GET' }: ConnectionRequest): (error: Error) => boolean {
  return (error) => idempotent || !(error instanceof LostConnection && error.sent)
}

/** Returns whether the supervisor is gone, is about to exit, or was replaced by one with another token. */
function isAway(error: unknown): error is Error {
  if (error instanceof LostConnection) return true
  if (!(error instanceof CraikError)) return false
  if (error.code === 'unauthorized') return true
  // A supervisor that fails each time it starts is no reason to try for a minute.
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

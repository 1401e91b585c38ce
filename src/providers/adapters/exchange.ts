/** One POST to a provider and the events that come back, read only as fast as they are asked for. */
import { Client, type Dispatcher } from 'undici'
import { CraikError } from '../../errors.ts'
import { checkBaseUrl } from '../base-url.ts'
import { loopbackAgent } from '../local/dial-loopback.ts'
import { loopbackRefusal } from '../local/loopback.ts'
import type { Endpoint } from './adapter.ts'
import type { Upstream } from './counterpart.ts'
import { EventReader, type WireEvent } from './events.ts'
import { ANSWER_WAIT_MS_MAX, HEADER_BYTES_MAX, REFUSAL_BYTES_MAX } from './limits.ts'
import { refusal } from './refusal.ts'

export interface WireRequest {
  /** After the base URL, with a leading slash. */
  readonly path: string
  readonly headers: Readonly<Record<string, string>>
  readonly body: string
}

type Answered = Dispatcher.ResponseData

/**
 * A connection of its own for each call: nothing is ever sent on one that may be half dead, so nothing has to be
 * sent twice. Leaving the loop, a failure and the signal all close it.
 */
export async function* exchange(
  endpoint: Endpoint,
  from: Upstream,
  request: WireRequest,
  signal: AbortSignal,
): AsyncGenerator<WireEvent> {
  if (signal.aborted) throw from.fail('cancelled', 'the call was cancelled', { sent: false })
  const url = targetUrl(endpoint, from, request.path)
  const patience = new Patience()
  const progress = { connected: false, answered: false }
  const dispatcher = dispatcherFor(endpoint, url)
  dispatcher.on('connect', () => {
    progress.connected = true
  })
  try {
    const response = await patience.wait(
      endpoint.connectTimeoutMs + endpoint.headersTimeoutMs,
      dispatcher.request({
        origin: url.origin,
        path: url.pathname + url.search,
        method: 'POST',
        headers: { 'content-type': 'application/json', accept: 'text/event-stream', ...request.headers },
        body: request.body,
        signal: AbortSignal.any([signal, patience.signal]),
        // The waits here are measured from the outside: undici starts its own anew with every byte.
        headersTimeout: 0,
        bodyTimeout: 0,
      }),
    )
    progress.answered = true
    // Closing a connection that nobody is reading from any more is no error of anyone's.
    response.body.on('error', () => {})
    if (response.statusCode !== 200) throw await refused(from, response, endpoint, patience)
    checkContent(from, response)
    yield* eventsOf(from, response, endpoint, patience)
  } catch (error) {
    throw translate(error, from, signal, patience, progress)
  } finally {
    await dispatcher.destroy().catch(() => {})
  }
}

async function* eventsOf(
  from: Upstream,
  response: Answered,
  endpoint: Endpoint,
  patience: Patience,
): AsyncGenerator<WireEvent> {
  const reader = new EventReader(from)
  const chunks = response.body[Symbol.asyncIterator]()
  let wholeLeftMs = ANSWER_WAIT_MS_MAX
  // Bytes alone buy no more time: an event or a comment has to be completed.
  let idleLeftMs = endpoint.idleTimeoutMs
  for (;;) {
    const startedMs = performance.now()
    const next = await patience.wait(Math.min(idleLeftMs, wholeLeftMs), chunks.next())
    const waitedMs = performance.now() - startedMs
    if (next.done === true) return
    const { events, alive } = reader.feed(next.value as Uint8Array)
    wholeLeftMs -= waitedMs
    idleLeftMs = alive ? endpoint.idleTimeoutMs : idleLeftMs - waitedMs
    yield* events
  }
}

async function refused(
  from: Upstream,
  response: Answered,
  endpoint: Endpoint,
  patience: Patience,
): Promise<CraikError> {
  const chunks = response.body[Symbol.asyncIterator]()
  const pieces: Uint8Array[] = []
  let bytes = 0
  let leftMs = endpoint.idleTimeoutMs
  while (bytes < REFUSAL_BYTES_MAX) {
    const startedMs = performance.now()
    // The status says enough: a body that does not come is done without.
    const next = await patience
      .wait(leftMs, chunks.next())
      .catch(() => ({ done: true as const, value: undefined }))
    if (next.done === true) break
    leftMs -= performance.now() - startedMs
    pieces.push(next.value as Uint8Array)
    bytes += (next.value as Uint8Array).length
  }
  return refusal(from, response.statusCode, response.headers, Buffer.concat(pieces).toString('utf8'))
}

function checkContent(from: Upstream, response: Answered): void {
  const type = String(response.headers['content-type'] ?? '')
  if (!/^text\/event-stream\s*(?:;|$)/i.test(type)) throw from.garbage('its answer is not an event stream')
  const coding = response.headers['content-encoding']
  if (coding !== undefined && coding !== 'identity')
    throw from.garbage('it compressed its answer, which Craik did not request')
}

function targetUrl(endpoint: Endpoint, from: Upstream, path: string): URL {
  const wrong = checkBaseUrl(endpoint.baseUrl, { local: endpoint.loopbackOnly })
  if (wrong !== undefined)
    throw from.fail('rejected', `nothing was sent: the base URL ${wrong}`, { sent: false, refused: true })
  return new URL(endpoint.baseUrl + path)
}

function dispatcherFor(endpoint: Endpoint, url: URL): Dispatcher {
  const { connectTimeoutMs } = endpoint
  if (loopbackRefusal(endpoint.baseUrl) === undefined)
    return loopbackAgent(endpoint.baseUrl, { connectTimeoutMs })
  return new Client(url.origin, {
    allowH2: false,
    maxHeaderSize: HEADER_BYTES_MAX,
    pipelining: 1,
    connect: { timeout: connectTimeoutMs, rejectUnauthorized: true },
  })
}

/** Foreign errors are named by their code only: their texts and fields may hold bytes of the answer. */
function translate(
  error: unknown,
  from: Upstream,
  signal: AbortSignal,
  patience: Patience,
  { connected, answered }: { readonly connected: boolean; readonly answered: boolean },
): unknown {
  // Whoever cancels may give one of our errors as the reason.
  if (error instanceof CraikError && error !== signal.reason) return error
  const status = answered ? 200 : undefined
  if (signal.aborted) return from.fail('cancelled', 'the call was cancelled', { status, sent: connected })
  const code = codeOf(error)
  if (!connected) return from.fail('unreachable', `no connection${code}`, { sent: false })
  if (patience.signal.aborted)
    return from.fail('timeout', answered ? 'its answer stalled' : 'it did not answer in time', { status })
  if (/HPE_|HEADERS_OVERFLOW/.test(code))
    return from.fail('garbage', `its answer is not HTTP${code}`, { status })
  if (!answered) return from.fail('unreachable', `it closed the connection without an answer${code}`)
  return from.fail('broken_stream', `the connection broke in the middle of its answer${code}`, { status })
}

function codeOf(error: unknown): string {
  const { code } = error as { readonly code?: unknown }
  return typeof code === 'string' && /^[A-Z0-9_]{1,60}$/.test(code) ? ` (${code})` : ''
}

/** Waits that end by themselves: one that lasts too long aborts everything that hangs on the signal. */
class Patience {
  readonly #controller = new AbortController()

  get signal(): AbortSignal {
    return this.#controller.signal
  }

  async wait<T>(timeoutMs: number, promise: Promise<T>): Promise<T> {
    const timer = setTimeout(() => this.#controller.abort(), Math.max(0, timeoutMs))
    try {
      return await promise
    } finally {
      clearTimeout(timer)
    }
  }
}

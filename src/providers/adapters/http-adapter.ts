/** What the HTTP dialects have in common: from a dialect's way of writing and reading to a whole adapter. */
import type { z } from 'zod'
import type { Json } from '../../lib/canonical-json.ts'
import { CredentialMask } from '../../lib/credential-mask.ts'
import type { ModelRequest } from '../conversation.ts'
import type { Adapter, Dialect, Endpoint, ModelEvent } from './adapter.ts'
import { Answer } from './answer.ts'
import { Upstream } from './counterpart.ts'
import type { WireEvent } from './events.ts'
import { exchange } from './exchange.ts'

export interface WireDialect {
  readonly dialect: Dialect
  readonly mayOmitOutputCap: boolean
  /** Whether the end of the stream is the end of the answer; false where an event of its own says so. */
  readonly endsWithStream: boolean
  body(request: ModelRequest): Json
  /** After the base URL. */
  path(request: ModelRequest): string
  /** The headers that carry the credential, and those that the dialect insists on. */
  headers(credential: string | undefined): Readonly<Record<string, string>>
  /** A reader for the answer to a request. */
  reader(request: ModelRequest): (event: WireEvent, answer: Answer) => void
}

export function httpAdapter(wire: WireDialect): Adapter {
  return {
    dialect: wire.dialect,
    mayOmitOutputCap: wire.mayOmitOutputCap,
    // Some servers refuse a body with half a character in it.
    encode: (request) =>
      JSON.stringify(wire.body(request), (_, value) =>
        typeof value === 'string' ? value.toWellFormed() : value,
      ),
    call: (endpoint, request, body, signal) => call(wire, endpoint, request, body, signal),
  }
}

async function* call(
  wire: WireDialect,
  endpoint: Endpoint,
  request: ModelRequest,
  body: string,
  signal: AbortSignal,
): AsyncGenerator<ModelEvent> {
  const from = new Upstream(endpoint.baseUrl, new CredentialMask([endpoint.credential]))
  if (!wire.mayOmitOutputCap && request.maxOutputTokens === undefined)
    throw from.fail('rejected', 'nothing was sent: this provider requires an output limit', {
      sent: false,
      refused: true,
    })
  const headers = wire.headers(headerValue(from, endpoint.credential))
  const answer = new Answer(from)
  const read = wire.reader(request)
  try {
    for await (const event of exchange(endpoint, from, { path: wire.path(request), headers, body }, signal)) {
      answer.beginEvent()
      read(event, answer)
      yield* answer.take()
      if (answer.ended) return
    }
    if (!wire.endsWithStream || !answer.stopped)
      throw from.fail('broken_stream', 'its answer ends before it is complete', { status: 200 })
    answer.end()
  } catch (error) {
    // Thinking and arguments are written, and billed, without being passed on.
    const usage = answer.spentSoFar(Buffer.byteLength(body), request.maxOutputTokens)
    if (usage !== undefined) yield { type: 'usage', usage }
    throw error
  }
  yield* answer.take()
}

/** Stored secrets often end in a line break; no other blank or control character belongs into a header. */
function headerValue(from: Upstream, credential: Buffer | undefined): string | undefined {
  if (credential === undefined) return undefined
  const value = credential.toString('latin1').replace(/\r?\n$/, '')
  if (/^[\x21-\x7e]{1,16384}$/.test(value)) return value
  throw from.fail(
    'unauthorized',
    'nothing was sent: the stored credential is not a key (it contains spaces or control characters)',
    {
      sent: false,
      refused: true,
    },
  )
}

/** An event's data in the shape that the dialect gives it, or the answer is garbage. */
export function parseEvent<T extends z.ZodType>(schema: T, data: string, answer: Answer): z.infer<T> {
  let json: unknown
  try {
    json = JSON.parse(data)
  } catch {
    throw answer.from.garbage('one of its events is not JSON')
  }
  const parsed = schema.safeParse(json)
  if (parsed.success) return parsed.data
  const at = parsed.error.issues[0]?.path.filter(
    (part) => typeof part === 'number' || /^\w{1,40}$/.test(String(part)),
  )
  throw answer.from.garbage(`one of its events has an unexpected shape at ${at?.join('.') || 'its top'}`)
}

/** Requests the models of a local model server. Craik does this before it routes any call to it. */
import { errors, request } from 'undici'
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import { loopbackAgent } from './dial-loopback.ts'
import type { LocalPreset } from './local-presets.ts'
import { parseLoopbackUrl } from './loopback.ts'
import { readModels } from './model-list.ts'

/** `rejected`: the server refuses the request. `unexpected`: its response is not a list of models. */
type HealthStatus = 'ok' | 'unreachable' | 'rejected' | 'unexpected'

export interface LocalHealth {
  readonly preset_id: string
  readonly provider_id: string
  readonly base_url: string
  readonly status: HealthStatus
  readonly detail: string
  readonly warnings: readonly string[]
  readonly models: readonly string[]
  readonly checked_at: string
}

export interface HealthOptions {
  readonly baseUrl: string
  /** Covers everything: connecting, waiting, and the last byte. */
  readonly timeoutMs: number
  readonly signal: AbortSignal
  readonly clock: Clock
}

/** Far more than a thousand long names need. */
const MAX_BODY_BYTES = 1024 * 1024

/**
 * Returns the result of the check. Throws `usage` when the base URL is not loopback, and the signal's reason when it
 * aborts.
 */
export async function checkLocalHealth(preset: LocalPreset, options: HealthOptions): Promise<LocalHealth> {
  const { baseUrl, protocol } = parseLoopbackUrl(options.baseUrl)
  if (/\/v1\/v1$/.test(baseUrl))
    throw new CraikError('usage', 'invalid base URL: it ends with /v1 twice', {
      hint: `use /v1 once:  --base-url ${baseUrl.slice(0, -3)}`,
    })
  const finding = await ask(baseUrl, options)
  return {
    preset_id: preset.id,
    provider_id: preset.provider_id,
    base_url: baseUrl,
    models: [],
    ...finding,
    warnings: [
      ...(protocol === 'http:' ? ['plaintext HTTP: only for loopback, where it stays on this machine'] : []),
      ...(finding.warnings ?? []),
    ],
    checked_at: new Date(options.clock.nowMs()).toISOString(),
  }
}

type Finding = Pick<LocalHealth, 'status' | 'detail'> & Partial<Pick<LocalHealth, 'models' | 'warnings'>>

async function ask(baseUrl: string, { timeoutMs, signal }: HealthOptions): Promise<Finding> {
  const deadline = AbortSignal.timeout(timeoutMs)
  const agent = loopbackAgent(baseUrl, { connectTimeoutMs: timeoutMs })
  try {
    const { statusCode, body } = await request(`${baseUrl}/models`, {
      dispatcher: agent,
      headers: { accept: 'application/json', 'accept-encoding': 'identity' },
      signal: AbortSignal.any([signal, deadline]),
    })
    const refusal = refusalOf(statusCode, baseUrl)
    if (refusal !== undefined) return refusal
    const text = await readAll(body)
    return text === undefined
      ? { status: 'unexpected', detail: 'the response is larger than 1 MiB' }
      : readModels(text)
  } catch (error) {
    signal.throwIfAborted()
    if (deadline.aborted)
      return { status: 'unreachable', detail: `no complete response within ${timeoutMs} ms` }
    return { ...failureOf(error) }
  } finally {
    await agent.destroy()
  }
}

function refusalOf(status: number, baseUrl: string): Finding | undefined {
  if (status >= 200 && status < 300) return undefined
  if (status >= 300 && status < 400)
    return { status: 'rejected', detail: `it redirects (HTTP ${status}); redirects are not followed` }
  const hint =
    status === 404 && !baseUrl.endsWith('/v1')
      ? '; most servers serve it under /v1, which is missing in this base URL'
      : ''
  return { status: 'rejected', detail: `it returns HTTP ${status} for /models${hint}` }
}

/** Returns `undefined` when the body is larger than the limit. */
async function readAll(body: AsyncIterable<Buffer>): Promise<Buffer | undefined> {
  const chunks: Buffer[] = []
  let length = 0
  for await (const chunk of body) {
    length += chunk.length
    if (length > MAX_BODY_BYTES) return undefined
    chunks.push(chunk)
  }
  return Buffer.concat(chunks)
}

/** Uses only Craik's own words, and never repeats text from the server. */
function failureOf(error: unknown): Finding {
  const { code } = error as { readonly code?: unknown }
  if (error instanceof errors.HTTPParserError || error instanceof errors.HeadersOverflowError)
    return { status: 'unexpected', detail: 'the server there does not speak HTTP' }
  if (code === 'ECONNREFUSED') return { status: 'unreachable', detail: 'nothing listens there' }
  if (
    typeof code === 'string' &&
    /^(?:ERR_TLS_|ERR_SSL_|CERT_|DEPTH_ZERO_|SELF_SIGNED_|UNABLE_TO_)/.test(code)
  )
    return { status: 'unreachable', detail: `no trusted TLS connection (${code})` }
  if (error instanceof errors.SocketError || code === 'ECONNRESET' || code === 'EPIPE')
    return { status: 'unexpected', detail: 'it closed the connection before the response was complete' }
  const known = typeof code === 'string' && /^[A-Z][A-Z0-9_]{1,60}$/.test(code) ? ` (${code})` : ''
  return { status: 'unreachable', detail: `no connection${known}` }
}

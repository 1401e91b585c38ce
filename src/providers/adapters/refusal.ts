/** What a provider says when it does not answer: a status with a body, or an error in the middle of a stream. */
import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import type { CraikError } from '../../errors.ts'
import type { FailureKind } from './adapter.ts'
import type { Upstream } from './counterpart.ts'
import { retryAfterMs } from './retry-after.ts'

/** The codes, types and statuses that providers name their errors with. */
const KIND_BY_NAME: Readonly<Record<string, FailureKind>> = {
  rate_limit_error: 'rate_limited',
  rate_limit_exceeded: 'rate_limited',
  insufficient_quota: 'rate_limited',
  RESOURCE_EXHAUSTED: 'rate_limited',
  overloaded_error: 'overloaded',
  service_unavailable: 'overloaded',
  UNAVAILABLE: 'overloaded',
  authentication_error: 'unauthorized',
  permission_error: 'unauthorized',
  invalid_api_key: 'unauthorized',
  API_KEY_INVALID: 'unauthorized',
  UNAUTHENTICATED: 'unauthorized',
  PERMISSION_DENIED: 'unauthorized',
  invalid_request_error: 'rejected',
  invalid_prompt: 'rejected',
  billing_error: 'rejected',
  not_found_error: 'rejected',
  request_too_large: 'rejected',
  context_length_exceeded: 'rejected',
  INVALID_ARGUMENT: 'rejected',
  FAILED_PRECONDITION: 'rejected',
  NOT_FOUND: 'rejected',
  api_error: 'server_error',
  internal_error: 'server_error',
  internal_server_error: 'server_error',
  server_error: 'server_error',
  vector_store_timeout: 'server_error',
  ABORTED: 'server_error',
  DATA_LOSS: 'server_error',
  INTERNAL: 'server_error',
  UNKNOWN: 'server_error',
  timeout_error: 'timeout',
  DEADLINE_EXCEEDED: 'timeout',
}

/** Names of what is wrong with a credential that say nothing of what a client should do. */
const OTHER_NAMES = [
  'account_deactivated',
  'account_suspended',
  'forbidden',
  'insufficient_permissions',
  'invalid_authentication_error',
  'incorrect_api_key_error',
  'missing_scope',
  'model_not_found',
  'organization_deactivated',
  'permission_denied',
  'permission_denied_error',
  'token_expired',
  'token_invalidated',
  'token_revoked',
  'unauthorized',
  'unsupported_country_region_territory',
] as const
const KNOWN_NAMES: ReadonlySet<unknown> = new Set([...Object.keys(KIND_BY_NAME), ...OTHER_NAMES])

/** How a provider calls its own error, where it is a name that is known here. */
export interface KnownNames {
  readonly type?: string
  readonly code?: string
  readonly status?: string
}

/** The error object of any dialect. */
export interface Problem {
  readonly message?: string | undefined
  readonly type?: string | undefined
  readonly status?: string | undefined
  readonly code?: string | number | undefined
  readonly details?: readonly Detail[]
}

interface Detail {
  readonly reason: string | undefined
  readonly retryDelay: string | undefined
}

/** Gemini sends two or three. */
const DETAILS_MAX = 16

/**
 * Reads the few members that count and ignores those of another type. A schema would collect a fault for each wrong element:
 * a second for 250 KB, on the event loop.
 */
export function readProblem(value: unknown): Problem {
  if (typeof value === 'string') return { message: value }
  const { message, type, status, code, details } = membersOf(value)
  return {
    message: stringOf(message),
    type: stringOf(type),
    status: stringOf(status),
    code: typeof code === 'number' ? code : stringOf(code),
    ...(Array.isArray(details) && { details: details.slice(0, DETAILS_MAX).map(readDetail) }),
  }
}

function readDetail(value: unknown): Detail {
  const { reason, retryDelay } = membersOf(value)
  return { reason: stringOf(reason), retryDelay: stringOf(retryDelay) }
}

function membersOf(value: unknown): Readonly<Record<string, unknown>> {
  return typeof value === 'object' && value !== null ? (value as Record<string, unknown>) : {}
}

function stringOf(value: unknown): string | undefined {
  return typeof value === 'string' ? value : undefined
}

/** The same as a schema, which never fails a whole event. */
export const problemSchema = z.unknown().transform(readProblem)

/** The error for an answer that is not a 200. */
export function refusal(
  from: Upstream,
  status: number,
  headers: IncomingHttpHeaders,
  body: string,
): CraikError {
  if (status >= 300 && status < 400)
    return from.fail('rejected', `it redirects (${status}), and redirects are not followed`, {
      status,
      refused: true,
    })
  const said = parseBody(body)
  const kind = kindOfStatus(status, said)
  const pause = retryAfterMs(headers, said?.details?.find((detail) => detail.retryDelay)?.retryDelay)
  const words = status === 403 ? 'it does not permit this with the credential' : WORDS[kind]
  return from.fail(kind, `${words} (${status})${wordsOf(from, kind, said)}`, {
    status,
    retryAfterMs: pause,
    // Behind a gateway's 502 or 504 a provider may have worked, and may bill for it.
    refused: status < 500 || status === 500 || status === 503 || status === 529,
  })
}

/** The error for an `error` event in a stream that began well. */
export function streamFailure(from: Upstream, said: Problem): CraikError {
  // Names that are not known here are those of requests that a provider does not take, such as invalid_image.
  const isNamed = [said.code, said.status, said.type].some(
    (name) => typeof name === 'string' && !IS_PLAIN_ERROR.test(name),
  )
  const kind = kindOfProblem(said) ?? (isNamed ? 'rejected' : 'server_error')
  return from.fail(kind, `it broke off its answer with an error${wordsOf(from, kind, said)}`, {
    status: 200,
  })
}

/** Says that there is an error, and not which. */
const IS_PLAIN_ERROR = /^(?:error|failed)?$/

/** Of the error in a body. */
export function knownNames(body: string): KnownNames {
  return namesIn(parseBody(body))
}

export function namesIn(said: Problem | undefined): KnownNames {
  const { type, code, status } = said ?? {}
  return Object.fromEntries(
    Object.entries({ type, code, status }).filter(([, name]) => KNOWN_NAMES.has(name)),
  )
}

/**
 * What is repeated of its words. Where a provider does not accept a credential it likes to quote it, or the beginning of it: of
 * those only a known name is, whatever they say.
 */
function wordsOf(from: Upstream, kind: FailureKind, said: Problem | undefined): string {
  if (kind !== 'unauthorized') return from.quote(said?.message ?? undefined)
  const [name] = Object.values(namesIn(said))
  return name === undefined ? '' : `: ${name}`
}

const WORDS: Readonly<Record<string, string>> = {
  rate_limited: 'it has had too many requests',
  overloaded: 'it is overloaded',
  server_error: 'it failed',
  unauthorized: 'it does not accept the credential',
  timeout: 'it gave up waiting',
  rejected: 'it rejected the request',
  garbage: 'it answered with an unexpected status',
}

function kindOfStatus(status: number, said: Problem | undefined): FailureKind {
  // Gemini answers 400 to a key it does not know. Whatever the status, such an error may quote the key.
  if (status >= 400 && said !== undefined && kindOfProblem(said) === 'unauthorized') return 'unauthorized'
  if (status === 429) return 'rate_limited'
  if (status === 503 || status === 529) return 'overloaded'
  if (status === 504 || status === 408) return 'timeout'
  if (status >= 500) return 'server_error'
  if (status === 401 || status === 403) return 'unauthorized'
  if (status < 400) return 'garbage'
  return 'rejected'
}

function kindOfProblem(said: Problem): FailureKind | undefined {
  const names = [...(said.details ?? []).map((detail) => detail.reason), said.code, said.status, said.type]
  for (const name of names) {
    const kind =
      typeof name === 'string' && Object.hasOwn(KIND_BY_NAME, name) ? KIND_BY_NAME[name] : undefined
    if (kind !== undefined) return kind
  }
  const status = Number(said.code)
  return status >= 400 && status < 600 ? kindOfStatus(status, undefined) : undefined
}

function parseBody(body: string): Problem | undefined {
  let value: unknown
  try {
    value = JSON.parse(body)
  } catch {
    return undefined
  }
  const { error, detail, ...others } = membersOf(Array.isArray(value) ? value[0] : value)
  if (error !== undefined && error !== null) return readProblem(error)
  return typeof detail === 'string' ? { message: detail } : readProblem(others)
}

/** What a provider says when it does not answer: a status with a body, or an error in the middle of a stream. */
import type { IncomingHttpHeaders } from 'node:http'
import { z } from 'zod'
import type { CraikError } from '../../errors.ts'
import type { FailureKind } from './adapter.ts'
import type { Counterpart } from './counterpart.ts'
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

const problem = z.object({
  message: z.string().nullish(),
  type: z.string().nullish(),
  status: z.string().nullish(),
  code: z.union([z.string(), z.number()]).nullish(),
  details: z
    .array(z.object({ reason: z.string().optional(), retryDelay: z.string().optional() }))
    .nullish()
    .catch(undefined),
})
export type Problem = z.infer<typeof problem>

/** The error object of any dialect, as a schema that never fails a whole event. */
export const problemSchema = z.union([problem, z.string().transform((message): Problem => ({ message }))])

const refusalBody = z.union([
  z.object({ error: problemSchema }).transform((body) => body.error),
  z.array(z.object({ error: problemSchema })).transform((body) => body[0]?.error),
  z.object({ detail: z.string() }).transform((body): Problem => ({ message: body.detail })),
  problem,
])

/** The error for an answer that is not a 200. */
export function refusal(
  from: Counterpart,
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
export function streamFailure(from: Counterpart, said: Problem): CraikError {
  const kind = kindOfProblem(said) ?? 'server_error'
  return from.fail(kind, `it broke off its answer with an error${wordsOf(from, kind, said)}`, {
    status: 200,
  })
}

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
function wordsOf(from: Counterpart, kind: FailureKind, said: Problem | undefined): string {
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
  if (status === 429) return 'rate_limited'
  if (status === 503 || status === 529) return 'overloaded'
  if (status === 504 || status === 408) return 'timeout'
  if (status >= 500) return 'server_error'
  if (status === 401 || status === 403) return 'unauthorized'
  if (status < 400) return 'garbage'
  // Gemini answers 400 to a key it does not know.
  return said !== undefined && kindOfProblem(said) === 'unauthorized' ? 'unauthorized' : 'rejected'
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
  try {
    return refusalBody.safeParse(JSON.parse(body)).data
  } catch {
    return undefined
  }
}

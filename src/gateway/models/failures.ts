/** What a call that went wrong is called: in its receipt, to the breaker, and to the client. */
import type { IncomingHttpHeaders } from 'node:http'
import type { CraikError } from '../../errors.ts'
import type { FailureKind } from '../../providers/adapters/adapter.ts'
import type { Upstream } from '../../providers/adapters/counterpart.ts'
import { failureOf } from '../../providers/adapters/failure.ts'
import {
  type KnownNames,
  namesIn,
  readProblem,
  refusal,
  streamFailure,
} from '../../providers/adapters/refusal.ts'
import type { Ended } from '../../providers/dispatch/exchange.ts'
import type { Loose } from './json-members.ts'
import { isNotRenewed } from './login.ts'
import type { UpstreamError } from './upstream.ts'

export type FailedEnd = Extract<Ended['end'], { kind: 'failed' }>

export function refusedEnd(
  from: Upstream,
  status: number,
  headers: IncomingHttpHeaders,
  said: Buffer,
): FailedEnd {
  return ended(refusal(from, status, headers, said.toString('utf8')))
}

/** The provider's own error, in the middle of a stream. */
export function brokenOffEnd(from: Upstream, problem: Loose): FailedEnd {
  return ended(streamFailure(from, readProblem(problem)))
}

export function namesOf(problem: Loose): KnownNames {
  return namesIn(readProblem(problem))
}

/** A provider that does not accept a credential quotes it: nothing of its own words and headers is passed on. */
export function isOfCredential({ failure }: FailedEnd): boolean {
  return failure.failure === 'unauthorized'
}

export function garbageEnd(from: Upstream, what: string): FailedEnd {
  return ended(from.garbage(what))
}

/** More than the gateway takes. A guest can ask a provider for that, so it says nothing about the provider. */
export function tooMuchEnd(from: Upstream, what: string): FailedEnd {
  return { ...garbageEnd(from, what), isOfClient: true }
}

export function failedEnd(
  from: Upstream,
  kind: FailureKind,
  what: string,
  sent: boolean,
  status?: number,
): FailedEnd {
  return ended(from.fail(kind, what, { sent, status }))
}

/** A client that reads slowly delays a provider until one of them gives up: that says nothing about the provider. */
export function slowClientEnd(from: Upstream, status?: number): FailedEnd {
  return failedEnd(from, 'cancelled', 'the client read the response too slowly', true, status)
}

/** There is nothing to call it with: it was not asked, and nothing is known of it. */
export function noCredentialEnd(from: Upstream, error: CraikError, sent: boolean): FailedEnd {
  const kind = isNotRenewed(error) ? 'unreachable' : 'unauthorized'
  const { message, hint } = error
  return { ...failedEnd(from, kind, message, sent), message, hint, isOfLogin: true }
}

/** A connection that did not come about, or broke. */
export function brokenEnd(
  from: Upstream,
  { sent, code }: UpstreamError,
  status: number | undefined,
): FailedEnd {
  const named = code === '' ? '' : ` (${code})`
  const fail = (kind: FailureKind, what: string) => ended(from.fail(kind, what, { sent, status }))
  if (!sent) return fail('unreachable', `no connection${named}`)
  if (code === 'UND_ERR_HEADERS_TIMEOUT') return fail('timeout', 'it did not respond in time')
  if (code === 'UND_ERR_BODY_TIMEOUT') return fail('timeout', 'its response stalled')
  if (code === 'TOO_MANY_PIECES') return fail('garbage', 'it answers in too many small pieces')
  if (/HPE_|HEADERS_OVERFLOW|MISMATCH/.test(code))
    return fail('garbage', `its response is not valid HTTP${named}`)
  return status === undefined
    ? fail('unreachable', `it closed the connection without a response${named}`)
    : fail('broken_stream', `the connection broke during its response${named}`)
}

function ended(error: CraikError): FailedEnd {
  return { kind: 'failed', failure: failureOf(error)!, message: error.message, hint: error.hint }
}

/** The failures of calls, as receipts, the breaker and clients see them. */
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
import { isNotRenewed } from './choose-login.ts'
import type { Loose } from './json-members.ts'
import type { UpstreamError } from './upstream.ts'

export type FailedEnd = Extract<Ended['end'], { kind: 'failed' }>

export function describeRefusedEnd(
  from: Upstream,
  status: number,
  headers: IncomingHttpHeaders,
  output: Buffer,
): FailedEnd {
  return failedEndOf(refusal(from, status, headers, output.toString('utf8')))
}

/** Describes the provider's own error in the middle of a stream. */
export function describeBreakOff(from: Upstream, problem: Loose): FailedEnd {
  return failedEndOf(streamFailure(from, readProblem(problem)))
}

export function namesOf(problem: Loose): KnownNames {
  return namesIn(readProblem(problem))
}

/** A provider that rejects a credential may quote it, so none of its text or headers is forwarded. */
export function isOfCredential({ failure }: FailedEnd): boolean {
  return failure.failure === 'unauthorized'
}

export function garbageEnd(from: Upstream, what: string): FailedEnd {
  return failedEndOf(from.garbage(what))
}

/**
 * A response above the gateway's limits. A sandbox can request one from any provider, so it does not count against the
 * provider.
 */
export function tooMuchEnd(from: Upstream, what: string): FailedEnd {
  return { ...garbageEnd(from, what), isOfClient: true }
}

export function describeFailedEnd(
  from: Upstream,
  kind: FailureKind,
  what: string,
  sent: boolean,
  status?: number,
): FailedEnd {
  return failedEndOf(from.fail(kind, what, { sent, status }))
}

/**
 * A client that reads slowly delays a provider until one of them gives up. That does not count against the provider.
 */
export function slowClientEnd(from: Upstream, status?: number): FailedEnd {
  return describeFailedEnd(from, 'cancelled', 'the client read the response too slowly', true, status)
}

/** Without a credential, the provider was not called, and its state is unknown. */
export function noCredentialEnd(from: Upstream, error: CraikError, sent: boolean): FailedEnd {
  const kind = isNotRenewed(error) ? 'unreachable' : 'unauthorized'
  const { message, hint } = error
  return { ...describeFailedEnd(from, kind, message, sent), message, hint, isOfLogin: true }
}

/** Describes a connection that could not be opened, or broke. */
export function describeBrokenEnd(
  from: Upstream,
  { sent, code }: UpstreamError,
  status: number | undefined,
): FailedEnd {
  const named = code === '' ? '' : ` (${code})`
  const fail = (kind: FailureKind, what: string) => failedEndOf(from.fail(kind, what, { sent, status }))
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

function failedEndOf(error: CraikError): FailedEnd {
  return { kind: 'failed', failure: failureOf(error)!, message: error.message, hint: error.hint }
}

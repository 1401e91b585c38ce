/** A failed call to a provider, as an error that says what kind of failure it is. */
import { CraikError } from '../../errors.ts'
import { FAILURE_KINDS, type Failure, type FailureKind } from './adapter.ts'

const HINTS: Record<FailureKind, string> = {
  unreachable: 'check the network and the base URL: craik provider list',
  timeout: 'try again, or configure a fallback provider: craik provider failover show',
  rate_limited: 'wait and try again, or configure a fallback provider: craik provider failover show',
  overloaded: 'wait and try again, or configure a fallback provider: craik provider failover show',
  server_error: 'try again, or configure a fallback provider: craik provider failover show',
  unauthorized: 'store the key of this provider again: craik secret set NAME',
  rejected: 'check the model and the base URL: craik provider list',
  broken_stream: 'try again: the received part of the answer is incomplete',
  garbage: 'check that the base URL is one of this kind of provider: craik provider list',
  cancelled: '',
}

/** An error for a call that failed. What is not said: it was sent, and the provider did not refuse it. */
export function providerFailure(
  failure: FailureKind,
  message: string,
  facts: Partial<Omit<Failure, 'failure'>> = {},
): CraikError {
  const details: Failure = {
    failure,
    status: facts.status,
    retryAfterMs: facts.retryAfterMs,
    sent: facts.sent ?? true,
    refused: facts.refused ?? false,
  }
  return new CraikError('provider_failed', message, { hint: HINTS[failure], details: { ...details } })
}

/** What an adapter says about the call that it threw this error for; undefined for every other error. */
export function failureOf(error: unknown): Failure | undefined {
  if (!(error instanceof CraikError) || error.code !== 'provider_failed') return undefined
  const details = error.details as Partial<Failure> | undefined
  if (!FAILURE_KINDS.some((kind) => kind === details?.failure)) return undefined
  return details as Failure
}

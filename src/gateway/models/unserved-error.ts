/** The errors of calls without a response. Each has the status that clients handle correctly. */
import type { ProviderRecord } from '../../providers/provider-record.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import { type DialectError, statusOfFailure } from './dialects/dialect.ts'
import type { UnservedReason } from './model-call.ts'

export interface UnservedError extends DialectError {
  readonly headers: Readonly<Record<string, string>>
}

/** A refusal before the policy check. `rule` is the name in the receipt. */
export interface EarlyRefusal {
  readonly rule: string
  readonly status: number
  readonly message: string
}

export function describeUnserved(
  unserved: Extract<UnservedReason, string>,
  { id }: Pick<ProviderRecord, 'id'>,
): EarlyRefusal {
  switch (unserved) {
    case 'not_own_credential':
      return {
        rule: 'gateway.credential',
        status: 401,
        message:
          'the credential does not belong to this sandbox, or its login has ended on the host; send none, or the one of this sandbox, and check on the host:  craik accounts',
      }
    case 'no_credentials':
      return {
        rule: 'gateway.no_credentials',
        status: 403,
        message: `this sandbox was created with --credentials none, but ${id} requires a login`,
      }
    case 'other_dialect':
      return {
        rule: 'gateway.dialect',
        status: 400,
        message: `${id} does not support this dialect; show its dialect:  craik provider show ${id}`,
      }
  }
}

export function formatUnserved(
  result: Exclude<UnservedReason, string | undefined>,
  nowMs: number,
): UnservedError {
  if (result.kind === 'failed') {
    const { failure, reason, hint } = result
    return { status: statusOfFailure(failure), message: words(reason, hint), headers: {} }
  }
  const { by, reason, hint, retryAtMs } = result
  const status = { policy: 403, budget: 402, quota: 429, provider: 503 }[by]
  const waitMs = retryAtMs === undefined ? undefined : Math.max(0, retryAtMs - nowMs)
  const isCold = by === 'provider' && retryAtMs === undefined
  return {
    status: isCold ? 403 : status,
    message: words(reason, hint),
    headers: {
      ...(waitMs !== undefined && { 'retry-after': String(Math.ceil(waitMs / 1000)) }),
      // An immediate retry would fail in the same way.
      ...((by === 'policy' || by === 'budget' || isCold) && { 'x-should-retry': 'false' }),
    },
  }
}

/** Formats the message: who reports it, what happened, and the next command. */
export function words(reason: string, hint: string): string {
  const text = hint === '' ? `craik: ${reason}` : `craik: ${reason}. ${hint}`
  return redactText(text).text
}

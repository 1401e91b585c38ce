/** Why a call was not answered, as an error that its client can be told: each with the status that clients know what to do with. */
import type { ProviderRecord } from '../../providers/record.ts'
import { redactText } from '../../receipts/redaction/redact.ts'
import type { Unserved } from './call.ts'
import { type DialectError, statusOf } from './dialects/dialect.ts'

export interface ToldError extends DialectError {
  readonly headers: Readonly<Record<string, string>>
}

/** Refused before policy was asked: `rule` is what the receipt names. */
export interface RefusedEarly {
  readonly rule: string
  readonly status: number
  readonly message: string
}

export function refusedEarly(
  unserved: Extract<Unserved, string>,
  { id }: Pick<ProviderRecord, 'id'>,
): RefusedEarly {
  switch (unserved) {
    case 'not_own_credential':
      return {
        rule: 'gateway.credential',
        status: 401,
        message:
          'the credential that was sent is not one of this sandbox, or its login has ended on the host; send none, or the one that it was given, and see there:  craik accounts',
      }
    case 'no_credentials':
      return {
        rule: 'gateway.no_credentials',
        status: 403,
        message: `this sandbox was made with --credentials none, and ${id} takes a login`,
      }
    case 'other_dialect':
      return {
        rule: 'gateway.dialect',
        status: 400,
        message: `${id} does not speak this dialect; see what it speaks:  craik provider show ${id}`,
      }
  }
}

export function toldError(result: Exclude<Unserved, string | undefined>, nowMs: number): ToldError {
  if (result.kind === 'failed') {
    const { failure, reason, hint } = result
    return { status: statusOf(failure), message: words(reason, hint), headers: {} }
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
      // Trying again at once changes nothing about these.
      ...((by === 'policy' || by === 'budget' || isCold) && { 'x-should-retry': 'false' }),
    },
  }
}

/** Who speaks, what happened, and what to type next. */
export function words(reason: string, hint: string): string {
  const text = hint === '' ? `craik: ${reason}` : `craik: ${reason}. ${hint}`
  return redactText(text).text
}

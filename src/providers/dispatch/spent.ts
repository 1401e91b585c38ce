/** What a call is booked at, when its provider said how much it used and when it did not. */
import type { Usage } from '../conversation.ts'
import type { SettleInput } from '../ledger/tokens.ts'
import type { Exchange } from './exchange.ts'

/** English has about four, Chinese about three: the smaller one errs towards booking more. */
const BYTES_PER_TOKEN = 3
/** What a large hosted model writes at most, thinking included, while nothing of it is seen yet. */
const TOKENS_PER_SECOND = 200

export interface CallFacts {
  readonly durationMs: number
  /** The cap that was sent; null: none. */
  readonly maxOutputTokens: number | null
}

/** An answer is booked as it was reported; one that broke off as it can be told from here; what was not sent, not at all. */
export function spentOn(exchange: Exchange, facts: CallFacts): SettleInput['result'] {
  const { end, usage, sentBytes } = exchange
  if (end.kind === 'answered') return { kind: 'spent', usage: usage ?? { source: 'absent' } }
  if (sentBytes === 0 || (end.kind === 'failed' && end.failure.refused)) return { kind: 'nothing' }
  return { kind: 'spent', usage: estimate(exchange, facts) }
}

/** Never more tokens than bytes, and never more output than was allowed. */
function estimate(
  { usage, sentBytes, receivedBytes }: Exchange,
  { durationMs, maxOutputTokens }: CallFacts,
): Usage {
  const known = usage === undefined || usage.source === 'absent' ? undefined : usage
  const written =
    receivedBytes > 0
      ? Math.ceil(receivedBytes / BYTES_PER_TOKEN)
      : Math.ceil((durationMs * TOKENS_PER_SECOND) / 1000)
  return {
    source: 'estimated',
    inputTokens: known?.inputTokens ?? Math.ceil(sentBytes / BYTES_PER_TOKEN),
    cacheReadTokens: known?.cacheReadTokens ?? 0,
    cacheWriteTokens: known?.cacheWriteTokens ?? 0,
    outputTokens: Math.max(
      known?.outputTokens ?? 0,
      Math.min(written, maxOutputTokens ?? Number.MAX_SAFE_INTEGER),
    ),
  }
}

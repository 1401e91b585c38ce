/** What a call is booked at, when its provider said how much it used and when it did not. */
import type { Usage } from '../conversation.ts'
import { estimateOutputTokens, inputTokensAtMost } from '../estimate.ts'
import type { SettleInput } from '../ledger/tokens.ts'
import type { Ended } from './exchange.ts'

/** What a large hosted model writes at most, thinking included. */
const TOKENS_PER_SECOND = 200

export interface CallFacts {
  readonly durationMs: number
  /** The cap that was sent; null: none. */
  readonly maxOutputTokens: number | null
}

/** An answer is booked as it was reported; one that broke off as it can be told from here; what was not sent, not at all. */
export function spentOn(exchange: Ended, facts: CallFacts): SettleInput['result'] {
  const { end, usage, sentBytes } = exchange
  if (end.kind === 'answered') return { kind: 'spent', usage: usage ?? { source: 'absent' } }
  if (sentBytes === 0 || (end.kind === 'failed' && end.failure.refused)) return { kind: 'nothing' }
  return { kind: 'spent', usage: estimate(exchange, facts) }
}

/**
 * Input by its bytes, as it was held. Output by what came or by how long it took, whichever is more, up to the cap: a
 * model that thinks unseen writes much more than it shows.
 */
function estimate(
  { usage, sentBytes, receivedBytes }: Ended,
  { durationMs, maxOutputTokens }: CallFacts,
): Usage {
  const known = usage === undefined || usage.source === 'absent' ? undefined : usage
  const written = Math.max(
    estimateOutputTokens(receivedBytes),
    Math.ceil((durationMs * TOKENS_PER_SECOND) / 1000),
  )
  return {
    source: 'estimated',
    inputTokens: known?.inputTokens ?? inputTokensAtMost(sentBytes),
    cacheReadTokens: known?.cacheReadTokens ?? 0,
    cacheWriteTokens: known?.cacheWriteTokens ?? 0,
    outputTokens: Math.max(
      known?.outputTokens ?? 0,
      Math.min(written, maxOutputTokens ?? Number.MAX_SAFE_INTEGER),
    ),
  }
}

/** What the end of a `provider_action` says: how it came out, what was counted here, what the provider claims. */
import type { Outcome } from '../../receipts/receipt-log.ts'
import type { Measure } from '../../receipts/schema.ts'
import type { SettleInput } from '../ledger/tokens.ts'
import type { Ended } from './exchange.ts'
import type { CallFacts } from './spent.ts'

export function endOf(exchange: Ended, result: SettleInput['result'], facts: CallFacts): Outcome {
  const { end, toolCalls } = exchange
  const answered = end.kind === 'answered'
  return {
    status: answered ? 'passed' : 'failed',
    links: { provider_result_count: answered ? 1 : 0 },
    measures: measuresOf(exchange, result, facts),
    metadata: {
      ...(answered && end.stopReason !== undefined && { stop_reason: end.stopReason }),
      ...(answered && toolCalls !== undefined && { tool_calls: toolCalls.length }),
      ...(end.kind === 'failed' && { failure: end.failure.failure }),
      ...(end.kind === 'failed' && end.failure.status !== undefined && { http_status: end.failure.status }),
      ...(end.kind === 'thrown' && { failure: 'internal' }),
    },
  }
}

/** Tokens are the provider's word, or our own estimate; bytes and time are seen from here. */
function measuresOf(
  { sentBytes, receivedBytes }: Ended,
  result: SettleInput['result'],
  { durationMs }: CallFacts,
): Measure[] {
  const observed = (name: string, value: number): Measure => ({ name, value, source: 'observed' })
  const seen = [
    observed('duration_ms', durationMs),
    observed('request_bytes', sentBytes),
    observed('answer_bytes', receivedBytes),
  ]
  if (result.kind === 'nothing' || result.usage.source === 'absent') return seen
  const { source: from, inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens } = result.usage
  const source = from === 'measured' ? 'claimed' : 'observed'
  return [
    ...seen,
    { name: 'input_tokens', value: inputTokens, source },
    { name: 'cache_read_tokens', value: cacheReadTokens, source },
    { name: 'cache_write_tokens', value: cacheWriteTokens, source },
    { name: 'output_tokens', value: outputTokens, source },
  ]
}

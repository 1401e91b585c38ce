/** The tokens of a run: what its calls used, as the ledger booked it, and what the next one takes before it answers. */
import type { Message, Tool } from '../../providers/conversation.ts'
import { writtenTokens } from '../../providers/estimate.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { Store } from '../../store/store.ts'
import { bodyOf } from './receipt-body.ts'

type Body = Receipt['body']

/** Of what is about to be sent: text and little else, so it counts like text. */
export function estimateInputTokens(messages: readonly Message[], tools: readonly Tool[]): number {
  return writtenTokens(Buffer.byteLength(JSON.stringify({ messages, tools })))
}

/**
 * What the calls that left these receipts used: also those that failed, and those before a failover. Null when one of
 * them does not say, so that it may have used anything.
 */
export function tokensBooked(store: Store, receiptIds: readonly string[]): Promise<number | null> {
  return store.read(async (tables) => {
    const bodies: Body[] = []
    for (const id of receiptIds) {
      const row = await tables.receipts.get(id)
      const body = row && bodyOf(row.line)
      if (body !== undefined) bodies.push(body)
    }
    return countTokens(bodies)
  })
}

/** The same of receipts that are known. A reservation that nothing followed was a kill: it may have used anything. */
export function countTokens(bodies: readonly Body[]): number | null {
  // What was denied reserved nothing.
  const bookings = bodies.filter(({ kind, status }) => kind === 'budget' && status !== 'denied')
  const count = (...operations: readonly string[]) =>
    bookings.filter(({ operation = '' }) => operations.includes(operation)).length
  if (count('reserve') > count('settle', 'release')) return null
  let sum = 0
  for (const { operation, metadata } of bookings) {
    if (operation !== 'settle') continue
    const { tokens, usage_source } = metadata ?? {}
    if (typeof tokens !== 'number' || usage_source === 'absent') return null
    sum += tokens
  }
  return sum
}

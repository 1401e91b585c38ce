/** The tokens of a run: the usage of its calls, as the ledger recorded it, and the estimated input of the next call. */
import type { Message, Tool } from '../../providers/conversation.ts'
import { estimateOutputTokens } from '../../providers/estimate.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { Store } from '../../store/store.ts'
import { parseReceiptBody } from './receipt-body.ts'

type Body = Receipt['body']

/** Estimates the input of the next call. It is nearly all text, so it counts like text. */
export function estimateInputTokens(messages: readonly Message[], tools: readonly Tool[]): number {
  return estimateOutputTokens(Buffer.byteLength(JSON.stringify({ messages, tools })))
}

/**
 * Returns the usage of the calls with these receipts, including failed ones and those before a failover. Returns null
 * if one of them does not report its usage.
 */
export function tokensBooked(store: Store, receiptIds: readonly string[]): Promise<number | null> {
  return store.read(async (tables) => {
    const bodies: Body[] = []
    for (const id of receiptIds) {
      const row = await tables.receipts.get(id)
      const body = row && parseReceiptBody(row.line)
      if (body !== undefined) bodies.push(body)
    }
    return countTokens(bodies)
  })
}

/**
 * The same for receipts that are already read. A reservation without an end was a kill, which can have used any amount.
 */
export function countTokens(bodies: readonly Body[]): number | null {
  // Denied calls reserved nothing.
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

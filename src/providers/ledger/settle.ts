/** Settles a model call: it books the usage in place of the hold and ends the call's receipt, in one transaction. */
import { CraikError } from '../../errors.ts'
import { endDraft } from '../../receipts/receipt-log.ts'
import type { ReceiptRef, ReceiptWriter } from '../../receipts/receipt-writer.ts'
import type { Tables } from '../../store/store.ts'
import type { Usage } from '../conversation.ts'
import { type Hold, ledgerEntry, parseHold, settleHold } from './hold.ts'
import { costOf } from './money.ts'
import type { Billing, Price, SettleInput, SettleOutput } from './tokens.ts'

export async function settleInLedger(
  tables: Tables,
  input: SettleInput,
  receipts: ReceiptWriter,
): Promise<SettleOutput> {
  const row = await tables.holds.take(input.holdId)
  if (row === undefined) {
    throw new CraikError('conflict', `hold ${input.holdId} is already closed: it was settled or released`, {
      hint: `show the receipt of its model call:  craik receipts show ${input.open.ref.id}`,
    })
  }
  const hold = parseHold(row)
  if (!hold.links.receipt_ids?.includes(input.open.ref.id))
    throw new CraikError('conflict', `hold ${input.holdId} does not belong to receipt ${input.open.ref.id}`, {
      hint: `show the receipt:  craik receipts show ${input.open.ref.id}`,
    })
  const booking = bookingOf(hold, input.result)
  const balances = await settleHold(tables, hold, booking)
  await tables.quotaUses.correct(input.holdId, booking.tokens)
  const budgetReceipt = await receipts.append(tables, {
    ...ledgerEntry(hold.operator, hold.links, input.result.kind === 'nothing' ? 'release' : 'settle'),
    status: 'passed',
    metadata: {
      hold_id: input.holdId,
      nano_usd: booking.nanoUsd,
      tokens: booking.tokens,
      cost_nano_usd: booking.costNanoUsd,
      overrun: booking.overrun,
      ...booking.usage,
      balances,
    },
  })
  const ref = await endReceipt(tables, input, budgetReceipt, receipts)
  return { ref, budgetReceipt, costNanoUsd: booking.costNanoUsd, overrun: booking.overrun }
}

export interface Booking {
  readonly nanoUsd: number
  readonly tokens: number
  /** Null when the call has no price. */
  readonly costNanoUsd: number | null
  readonly overrun: boolean
  /** The usage in the form of the receipt. */
  readonly usage: Readonly<Record<string, number | string>>
}

/** Returns the amounts that a result books against a hold. Replay uses it too. */
export function bookingOf(
  hold: Pick<Hold, 'nanoUsd' | 'tokens' | 'capped' | 'price' | 'billing'>,
  result: SettleInput['result'],
): Booking {
  const priceOf = (nanoUsd: number) => (isPriced(hold) ? nanoUsd : null)
  if (result.kind === 'nothing')
    return { nanoUsd: 0, tokens: 0, costNanoUsd: priceOf(0), overrun: false, usage: {} }
  const usage = findValidUsage(result.usage)
  const cost = usage && (hold.billing === 'metered' && hold.price ? costOf(hold.price, usage) : 0)
  if (usage === undefined || cost === undefined) {
    const { nanoUsd, tokens } = hold
    return {
      nanoUsd,
      tokens,
      costNanoUsd: priceOf(nanoUsd),
      overrun: false,
      usage: { usage_source: 'absent' },
    }
  }
  const tokens = usage.inputTokens + usage.outputTokens
  return {
    nanoUsd: cost,
    tokens,
    costNanoUsd: priceOf(cost),
    overrun: cost > hold.nanoUsd || (hold.capped && tokens > hold.tokens),
    usage: {
      usage_source: usage.source,
      input_tokens: usage.inputTokens,
      cache_read_tokens: usage.cacheReadTokens,
      cache_write_tokens: usage.cacheWriteTokens,
      output_tokens: usage.outputTokens,
    },
  }
}

/** A free call has a price of zero. A subscription and an unpriced model have none. */
function isPriced({ billing, price }: { readonly billing: Billing; readonly price: Price | null }): boolean {
  return billing === 'free' || (billing === 'metered' && price !== null)
}

/** Far above the tokens of any call. */
const MAX_TOKENS = 1e12

/** Returns `undefined` for absent or invalid counts, so that the whole hold is booked and never nothing. */
function findValidUsage(usage: Usage): Exclude<Usage, { source: 'absent' }> | undefined {
  if (usage.source === 'absent') return undefined
  const { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens } = usage
  const counts = [inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens]
  return counts.every((n) => Number.isSafeInteger(n) && n >= 0 && n <= MAX_TOKENS) ? usage : undefined
}

async function endReceipt(
  tables: Tables,
  { open: { ref, begin }, end }: SettleInput,
  budgetReceipt: ReceiptRef,
  receipts: ReceiptWriter,
): Promise<ReceiptRef> {
  const receipt_ids = [...(end.links?.receipt_ids ?? []), budgetReceipt.id].slice(-100)
  return receipts.append(tables, endDraft(ref.id, begin, { ...end, links: { ...end.links, receipt_ids } }))
}

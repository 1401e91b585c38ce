/** Reads the ledger's receipts from the log. A receipt can have any content. */
import { z } from 'zod'
import type { Receipt } from '../../receipts/schema.ts'
import { BUDGET_SCOPES, PERIODS } from '../../store/ledger-tables.ts'
import type { Usage } from '../conversation.ts'
import { balanceFacts } from './evaluate-reservation.ts'
import type { SettleInput } from './tokens.ts'

const count = z.int().nonnegative()
const balances = z.array(balanceFacts)

const limits = z.object({
  scope_kind: z.enum(BUDGET_SCOPES),
  scope_ref: z.string().nullable(),
  period: z.enum(PERIODS),
  limit_nano_usd: count.nullable(),
  limit_tokens: count.nullable(),
  allow_unpriced: z.boolean(),
})

const reserved = z.object({
  hold_id: z.string(),
  nano_usd: count,
  tokens: count,
  max_output_tokens: count.nullable(),
  lowered: z.boolean(),
  balances,
})

const refused = z.object({ subject: z.string() })

const booked = z.object({
  hold_id: z.string(),
  nano_usd: count,
  tokens: count,
  cost_nano_usd: count.nullable().optional(),
  overrun: z.boolean().default(false),
  usage_source: z.enum(['measured', 'estimated', 'absent']).optional(),
  input_tokens: count.optional(),
  cache_read_tokens: count.optional(),
  cache_write_tokens: count.optional(),
  output_tokens: count.optional(),
  balances,
})

export type Limits = z.infer<typeof limits>
export type ReservedEntry = z.infer<typeof reserved>
export type BookedEntry = z.infer<typeof booked>

export type LedgerEntry =
  | { readonly type: 'set' | 'remove'; readonly id: string; readonly limits: Limits }
  | { readonly type: 'reserved'; readonly entry: ReservedEntry }
  | { readonly type: 'refused'; readonly subject: string }
  | { readonly type: 'settle' | 'release' | 'indeterminate'; readonly entry: BookedEntry }
  /** Changes of quotas and other receipts of this kind do not change a balance. */
  | { readonly type: 'other' }

const CAPABILITIES: ReadonlySet<string> = new Set([
  'budget.write',
  'budget.reserve',
  'quota.reserve',
  'budget.settle',
])

/** Returns `undefined` for a receipt of the ledger that is not a valid entry. */
export function readEntry(body: Receipt['body']): LedgerEntry | undefined {
  const { operation, metadata, target, decision, capability } = body
  if (!CAPABILITIES.has(capability)) return { type: 'other' }
  switch (operation) {
    case 'set':
    case 'remove': {
      const parsed = limits.safeParse(metadata)
      return parsed.success && target !== undefined
        ? { type: operation, id: target, limits: parsed.data }
        : undefined
    }
    case 'set_quota':
    case 'remove_quota':
      return { type: 'other' }
    case 'reserve': {
      if (decision?.effect === 'deny') {
        const parsed = refused.safeParse(metadata)
        return parsed.success ? { type: 'refused', subject: parsed.data.subject } : undefined
      }
      const parsed = reserved.safeParse(metadata)
      return parsed.success ? { type: 'reserved', entry: parsed.data } : undefined
    }
    case 'settle':
    case 'release':
    case 'indeterminate': {
      const parsed = booked.safeParse(metadata)
      return parsed.success ? { type: operation, entry: parsed.data } : undefined
    }
    default:
      return undefined
  }
}

/** Returns the result that was reported when the call was settled. */
export function resultOf(
  type: 'settle' | 'release' | 'indeterminate',
  entry: BookedEntry,
): SettleInput['result'] {
  return type === 'release' ? { kind: 'nothing' } : { kind: 'spent', usage: usageOf(entry) }
}

function usageOf(entry: BookedEntry): Usage {
  const { usage_source: source, input_tokens, output_tokens } = entry
  if (
    source === undefined ||
    source === 'absent' ||
    input_tokens === undefined ||
    output_tokens === undefined
  )
    return { source: 'absent' }
  return {
    source,
    inputTokens: input_tokens,
    cacheReadTokens: entry.cache_read_tokens ?? 0,
    cacheWriteTokens: entry.cache_write_tokens ?? 0,
    outputTokens: output_tokens,
  }
}

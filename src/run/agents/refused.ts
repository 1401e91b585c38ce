/** Refusals to act on a record: whose it is, or that it was changed; as a receipt and as an error. */
import { CraikError } from '../../errors.ts'
import type { SealStatus } from '../../receipts/record-seal.ts'
import type { ReceiptDraft } from '../../receipts/schema.ts'
import type { Refused } from './tokens.ts'

export type RecordKind = 'session' | 'run' | 'handoff'

/** As far as a refusal has to know it. */
export interface OwnedRecord {
  readonly id: string
  readonly operator_subject: string
  readonly policy_envelope_id: string
  readonly session_id?: string | null
  readonly run_id?: string
}

interface Refusal {
  readonly rule: Refused['rule']
  readonly reason: string
  readonly receipt: Omit<ReceiptDraft, 'phase'>
}

/** A record that does not fit its seal says nothing reliable about whose it is. */
export function refusalOf(
  kind: RecordKind,
  { record, status }: { readonly record: OwnedRecord; readonly status: SealStatus },
  operator: string,
  operation: string,
): Refusal {
  const rule = `${kind}.${status === 'verified' ? 'operator' : 'seal'}` as const
  const { session_id, run_id } = record
  return {
    rule,
    reason:
      status === 'verified'
        ? `${kind} ${record.id} belongs to ${record.operator_subject}, not to ${operator}`
        : status === 'tampered'
          ? `${kind} ${record.id} was changed outside Craik: its seal is invalid`
          : `${kind} ${record.id} cannot be checked: the key that sealed it is missing`,
    receipt: {
      kind: 'denial',
      status: 'denied',
      operator,
      capability: `agent.${kind}`,
      operation,
      target: record.id,
      links: {
        ...(session_id && { session_id }),
        ...(run_id !== undefined && { run_id }),
        [`${kind}_id`]: record.id,
        policy_envelope_id: record.policy_envelope_id,
      },
      decision: { effect: 'deny', rule, missing: [], replayable: false },
    },
  }
}

export function refusedError({ rule, reason, receipt }: Omit<Refused, 'outcome'>): CraikError {
  const isSeal = rule.endsWith('.seal')
  return new CraikError(isSeal ? 'tampered' : 'denied', reason, {
    hint: isSeal
      ? `nothing was done (receipt ${receipt.id}); check the log:  craik receipts verify`
      : `nothing was done (receipt ${receipt.id}); show the current operator:  craik whoami`,
    details: { rule, receipt_id: receipt.id },
  })
}

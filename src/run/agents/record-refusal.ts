/** Refuses an action on a record that belongs to another operator or was changed, with a receipt and an error. */
import { CraikError } from '../../errors.ts'
import type { SealStatus } from '../../receipts/record-seal.ts'
import type { ReceiptDraft } from '../../receipts/schema.ts'
import type { Refused } from './tokens.ts'

export type RecordKind = 'session' | 'run' | 'handoff'

/** The fields that a refusal needs. */
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

/** Returns why an action is refused. A record with a wrong seal does not reliably name its owner. */
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

export function recordRefusalError({ rule, reason, receipt }: Omit<Refused, 'outcome'>): CraikError {
  const isSeal = rule.endsWith('.seal')
  return new CraikError(isSeal ? 'tampered' : 'denied', reason, {
    hint: isSeal
      ? `check the log:  craik receipts verify   (nothing was done; receipt ${receipt.id})`
      : `show the current operator:  craik whoami   (nothing was done; receipt ${receipt.id})`,
    details: { rule, receipt_id: receipt.id },
  })
}

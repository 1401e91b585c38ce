/** Refused uses of a login in a flood: counted by their rule, in one receipt with a count. */
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import { type DenialCaller, Denials, denialLinks } from '../denials.ts'

interface RefusedUse {
  readonly rule: string
  /** The operation of the first refusal. */
  readonly operation: string
  readonly target: string
  readonly count: number
}

export function githubDenials(log: ReceiptLog): Denials<RefusedUse> {
  return new Denials({
    write: (caller, refused) => append(log, caller, refused),
    together: (one, other) => ({ ...one, count: one.count + other.count }),
  })
}

function append(log: ReceiptLog, caller: DenialCaller, { rule, operation, target, count }: RefusedUse) {
  return log.append({
    kind: 'denial',
    status: 'denied',
    operator: caller.operator,
    capability: 'login.use',
    operation,
    target,
    links: denialLinks(caller),
    decision: { effect: 'deny', rule, missing: [], replayable: false },
    metadata: { denied_kind: 'egress', count },
  })
}

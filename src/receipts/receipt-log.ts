/** The receipt log for the rest of Craik: every write is durable before the call returns. */
import { CraikError } from '../errors.ts'
import type { Clock } from '../lib/clock.ts'
import { newId, type ReceiptId } from '../lib/ids.ts'
import { currentOwner, type Owner } from '../lib/owner.ts'
import { procedure, type Store } from '../store/store.ts'
import { type PreparedReceipt, prepareReceipt } from './prepare.ts'
import type { ReceiptRef } from './receipt-writer.ts'
import { CleanJson } from './redaction/redact.ts'
import type { Measure, ReceiptDraft, ReceiptLinks, ReceiptStatus } from './schema.ts'

export type Begin = Omit<ReceiptDraft, 'phase' | 'status' | 'begin_id' | 'owner'>

/** The result of an effect. */
export interface Outcome {
  readonly status: ReceiptStatus
  readonly links?: Partial<ReceiptLinks>
  readonly measures?: Measure[]
  readonly digests?: Record<string, string>
  readonly isolation?: string
  readonly metadata?: ReceiptDraft['metadata']
  readonly shell?: ReceiptDraft['shell']
}

export interface OpenReceipt extends ReceiptRef {
  /** Writes the end receipt. A second call is an error, because a receipt ends once. */
  end(outcome: Outcome): Promise<ReceiptRef>
}

export interface ReceiptLog {
  /** This process, as its receipts name it. */
  readonly owner: Owner
  /** Writes one receipt for an event without a duration. */
  append(draft: Omit<ReceiptDraft, 'phase'>): Promise<ReceiptRef>
  /** Resolves when the receipt is durable. Only then can the effect start. */
  begin(draft: Begin): Promise<OpenReceipt>
  /** Returns the open receipt for a begin that another procedure wrote in its own transaction. */
  openReceipt(ref: ReceiptRef, begin: Begin): OpenReceipt
}

const appendReceipt = procedure<PreparedReceipt, ReceiptRef>('receipts.append')
/** Signs the receipts that no signature covers yet. The writer does this itself about a second after a write. */
export const signReceipts = procedure<undefined, unknown>('receipts.checkpoint')
export const rotateKey = procedure<string, ReceiptRef>('receipts.rotate_key')

export function createReceiptLog(store: Store, clock: Clock): ReceiptLog {
  const known = new CleanJson()
  const write = async (draft: ReceiptDraft): Promise<ReceiptRef> =>
    store.write(appendReceipt, prepareReceipt(newId<ReceiptId>('rcpt', clock.nowMs()), draft, known))
  const toOpen = (ref: ReceiptRef, begin: Begin): OpenReceipt => ({
    ...ref,
    end: async (outcome) => {
      try {
        return await write(endDraft(ref.id, begin, outcome))
      } catch (error) {
        throw notEnded(ref.id, error)
      }
    },
  })
  const owner = currentOwner()
  return {
    owner,
    append: (draft) => write({ ...draft, phase: 'point' }),
    openReceipt: toOpen,
    async begin(draft) {
      return toOpen(await write({ ...draft, phase: 'begin', owner: ownerFields(owner) }), draft)
    },
  }
}

/** Returns the end receipt of a begin: the same subject, with the outcome. */
export function endDraft(
  beginId: ReceiptId,
  { kind, operator, capability, operation, target, links }: Begin,
  { status, links: more, ...facts }: Outcome,
): ReceiptDraft {
  return {
    kind,
    phase: 'end',
    status,
    begin_id: beginId,
    operator,
    capability,
    ...(operation && { operation }),
    ...(target && { target }),
    links: { ...links, ...more },
    ...facts,
  }
}

/** The effect is over. The caller must learn that it happened although its end is not recorded. */
function notEnded(id: ReceiptId, error: unknown): unknown {
  if (!(error instanceof CraikError)) return error
  const { code, message, hint } = error
  return new CraikError(code, `${message}; ${id} has started, but its result is not recorded`, {
    hint,
    cause: error,
  })
}

/** Returns the owner in the format of receipts. */
export function ownerFields(owner: Owner): NonNullable<ReceiptDraft['owner']> {
  return {
    boot_id: owner.bootId,
    pid: owner.pid,
    started_at: owner.startedAt,
    pid_namespace: owner.pidNamespace,
  }
}

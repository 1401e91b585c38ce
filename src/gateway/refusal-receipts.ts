/**
 * Receipts of refused model requests: the first refusals of a caller get one each, a flood gets one receipt with a
 * count.
 */
import type { RefusalNotes } from '../providers/dispatch/hop.ts'
import type { ReceiptLog } from '../receipts/receipt-log.ts'
import { type DenialCaller, Denials, denialLinks } from './denials.ts'

export interface RefusedRequest {
  /** The rule, such as `gateway.malformed`. */
  readonly rule: string
  readonly target: string
}

interface Refused extends RefusedRequest {
  readonly count: number
}

export class RefusalReceipts {
  readonly #log: ReceiptLog
  readonly #report: (error: unknown) => void
  readonly #denials: Denials<Refused>
  readonly #writing = new Set<Promise<unknown>>()

  constructor(log: ReceiptLog, report: (error: unknown) => void) {
    this.#log = log
    this.#report = report
    this.#denials = new Denials<Refused>({
      write: (caller, refused) => this.#append(caller, refused),
      together: (one, other) => ({ ...one, count: one.count + other.count }),
    })
  }

  /**
   * Records a refusal that no other code records. The refusal takes effect without its receipt, so nobody waits for the
   * write.
   */
  write(caller: DenialCaller, refused: RefusedRequest): void {
    if (!this.#denials.isSingle(caller)) {
      this.#count(caller, refused)
      return
    }
    this.#denials.spend(caller)
    const written = this.#append(caller, { ...refused, count: 1 })
      .catch(() => this.#count(caller, refused))
      .finally(() => this.#writing.delete(written))
    this.#writing.add(written)
  }

  /** Returns the notes for one call, whose refusals are written where they are decided. */
  notesOf(caller: DenialCaller): RefusalNotes {
    return {
      isSingle: () => this.#denials.isSingle(caller),
      spend: () => this.#denials.spend(caller),
      count: (rule, target) => this.#count(caller, { rule, target }),
      due: [],
    }
  }

  async close(): Promise<void> {
    await Promise.all(this.#writing)
    await this.#denials.close()
  }

  #count(caller: DenialCaller, refused: RefusedRequest): void {
    this.#denials.count(caller, { ...refused, count: 1 }, `${refused.rule} ${refused.target}`)
  }

  async #append(caller: DenialCaller, { rule, target, count }: Refused): Promise<void> {
    try {
      await this.#log.append({
        kind: 'denial',
        status: 'blocked',
        operator: caller.operator,
        capability: 'model.chat',
        operation: 'chat',
        target,
        links: denialLinks(caller),
        decision: { effect: 'deny', rule, missing: [], replayable: false },
        metadata: { denied_kind: 'provider_action', count },
      })
    } catch (error) {
      this.#report(error)
      throw error
    }
  }
}

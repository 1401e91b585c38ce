/**
 * Checks the calls of a log against its ledger during replay. Each call must begin with its own reservation, and its
 * hold must be settled before it ends.
 */
import type { Receipt } from '../../receipts/schema.ts'

type Body = Receipt['body']

export interface CallReport {
  /** The calls that begin in this log. */
  readonly begun: number
  /** The number of these with their own reservation. */
  readonly reserved: number
  /** The number of these whose hold is open: they still run, or their process died and the hold is not swept yet. */
  readonly open: number
}

type Booking = 'settle' | 'release' | 'indeterminate'

interface PairedCall {
  readonly seq: number
  booked: Booking | undefined
  ended: boolean
}

export function isCall({ kind, capability }: Pick<Body, 'kind' | 'capability'>): boolean {
  return kind === 'provider_action' && capability === 'model.chat'
}

export class CallPairing {
  readonly #complete: boolean
  readonly #differs: (seq: number, id: string, detail: string) => void
  /** Reserved calls that have not ended, by the id of their begin receipt. */
  readonly #calls = new Map<string, PairedCall>()
  readonly #callOfHold = new Map<string, string>()
  /** Admission is one transaction: no other call begins between a begin and its reservation. */
  #awaiting: { readonly body: Body; readonly seq: number } | undefined
  #begun = 0
  #reserved = 0
  #reachesBack = false

  /** `complete` means that the log starts with its first receipt, so no call began before it. */
  constructor(complete: boolean, differs: (seq: number, id: string, detail: string) => void) {
    this.#complete = complete
    this.#differs = differs
  }

  /** Returns whether some receipts concern calls that began before the log does. */
  get reachesBack(): boolean {
    return this.#reachesBack
  }

  began(body: Body, seq: number): void {
    this.#giveUpWaiting()
    this.#begun++
    this.#awaiting = { body, seq }
  }

  recordReservation({ links, operator, target }: Body, holdId: string): string | undefined {
    const id = onlyCall(links)
    if (id === undefined) return 'it does not name exactly one call'
    const call = this.#awaiting
    if (call?.body.id !== id) {
      // Only the very first receipts can refer to a begin that is not in the log.
      if (!this.#complete && this.#begun === 0) {
        this.#reachesBack = true
        return undefined
      }
      return `it reserves for ${id}, which is not the call that just began`
    }
    this.#awaiting = undefined
    this.#reserved++
    this.#calls.set(id, { seq: call.seq, booked: undefined, ended: false })
    this.#callOfHold.set(holdId, id)
    const { body } = call
    const same =
      body.operator === operator && body.target === target && body.links.session_id === links.session_id
    return same ? undefined : 'it reserves for a different call than it names'
  }

  checkBooking({ links }: Body, type: Booking, holdId: string): string | undefined {
    const id = this.#callOfHold.get(holdId)
    const call = id === undefined ? undefined : this.#calls.get(id)
    // The ledger replay reports an unknown hold.
    if (id === undefined || call === undefined) return undefined
    this.#callOfHold.delete(holdId)
    call.booked = type
    if (call.ended) this.#calls.delete(id)
    if (onlyCall(links) !== id) return 'it names a different call than its hold'
    return call.ended && type !== 'indeterminate' ? 'it settles a call that had already ended' : undefined
  }

  /** A call that is ended for a dead process leaves its hold to the sweep, and its outcome is unknown. */
  recordEnd({ id, begin_id, status }: Body, seq: number): void {
    const call = begin_id === undefined ? undefined : this.#calls.get(begin_id)
    if (begin_id === undefined || call === undefined || call.ended) {
      if (this.#complete || call !== undefined)
        this.#differs(
          seq,
          id,
          'it ends a call that is not open: without begin or reservation, or already ended',
        )
      else this.#reachesBack = true
      return
    }
    call.ended = true
    if (call.booked !== undefined) this.#calls.delete(begin_id)
    if (status !== 'indeterminate' && (call.booked === undefined || call.booked === 'indeterminate'))
      this.#differs(seq, id, 'it ends a call whose hold was neither settled nor released')
  }

  /** Called after the last receipt. */
  finish(): CallReport {
    this.#giveUpWaiting()
    let open = 0
    for (const [id, { seq, booked, ended }] of this.#calls) {
      if (booked === undefined) open++
      else if (!ended && booked !== 'indeterminate')
        this.#differs(seq, id, 'its hold was settled, but the call has no end')
    }
    return { begun: this.#begun, reserved: this.#reserved, open }
  }

  #giveUpWaiting(): void {
    const call = this.#awaiting
    this.#awaiting = undefined
    if (call !== undefined) this.#differs(call.seq, call.body.id, 'it began a call without a reservation')
  }
}

/** Returns the call of a ledger entry. A receipt in the log can have any content. */
function onlyCall({ receipt_ids: ids }: Body['links']): string | undefined {
  return Array.isArray(ids) && ids.length === 1 ? ids[0] : undefined
}

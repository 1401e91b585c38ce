/** Receipts of refusals: the first refusals of a caller get one each, a flood gets one receipt with a count. */
import { createTally, type Tally } from '../lib/paced-tally.ts'
import type { GatewayCaller } from './caller.ts'

/** The number of refusals in a row with a receipt each. One more is allowed every `REFILL_MS`. */
const BURST = 20
const REFILL_MS = 1_000
const PACE = { everyMs: 1_000, maxMs: 60_000 }
const MAX_CALLERS = 1_000

/** The caller of a request. */
export type DenialCaller = Pick<GatewayCaller, 'operator' | 'policyEnvelopeId' | 'sandboxId' | 'scope'>

/** Returns the links in the receipt of a refusal. */
export function denialLinks({ scope, sandboxId, policyEnvelopeId }: DenialCaller) {
  return {
    ...scope,
    ...(sandboxId !== undefined && { sandbox_id: sandboxId }),
    policy_envelope_id: policyEnvelopeId,
  }
}

export interface DenialTerms<Facts> {
  /** Writes one receipt for all refusals that the facts count. */
  readonly write: (caller: DenialCaller, facts: Facts) => Promise<unknown>
  readonly together: (one: Facts, other: Facts) => Facts
}

interface Book<Facts> {
  readonly caller: DenialCaller
  left: number
  filledMs: number
  /** By the rule and its ground: refusals for different reasons are counted separately. */
  readonly tallies: Map<string, Tally<Facts>>
}

export class Denials<Facts> {
  readonly #terms: DenialTerms<Facts>
  readonly #books = new Map<string, Book<Facts>>()

  constructor(terms: DenialTerms<Facts>) {
    this.#terms = terms
  }

  /** Returns whether the next refusal of a caller can have its own receipt. `spend` uses that allowance up. */
  isSingle(caller: DenialCaller): boolean {
    const book = this.#book(caller)
    const nowMs = performance.now()
    const filled = Math.floor((nowMs - book.filledMs) / REFILL_MS)
    if (filled > 0) {
      book.left = Math.min(BURST, book.left + filled)
      book.filledMs += filled * REFILL_MS
    }
    return book.left > 0
  }

  spend(caller: DenialCaller): void {
    this.#book(caller).left--
  }

  /** Counts a refusal without its own receipt. Refusals with the same `ground` are added up. */
  count(caller: DenialCaller, facts: Facts, ground: string): void {
    const { tallies } = this.#book(caller)
    let tally = tallies.get(ground)
    if (tally === undefined) {
      const { write, together } = this.#terms
      tally = createTally(together, async (reported) => void (await write(caller, reported)), PACE)
      tallies.set(ground, tally)
    }
    tally.add(facts)
  }

  async close(): Promise<void> {
    const tallies = [...this.#books.values()].flatMap((book) => [...book.tallies.values()])
    await Promise.all(tallies.map((tally) => tally.close()))
  }

  #book(caller: DenialCaller): Book<Facts> {
    const key = JSON.stringify([caller.operator, caller.sandboxId, caller.policyEnvelopeId, caller.scope])
    let book = this.#books.get(key)
    if (book === undefined) {
      if (this.#books.size >= MAX_CALLERS) this.#forgetOldest()
      book = { caller, left: BURST, filledMs: performance.now(), tallies: new Map() }
      this.#books.set(key, book)
    }
    return book
  }

  #forgetOldest(): void {
    const [key, book] = this.#books.entries().next().value!
    this.#books.delete(key)
    for (const tally of book.tallies.values()) void tally.close()
  }
}

/** How refusals are written down: the first of a caller one by one, a flood as one receipt with a count. */
import { pacedTally, type Tally } from '../lib/paced-tally.ts'
import type { GatewayCaller } from './caller.ts'

/** So many at once have receipts of their own, and one more each so often. */
const BURST = 20
const REFILL_MS = 1_000
const PACE = { everyMs: 1_000, maxMs: 60_000 }
const MAX_CALLERS = 1_000

/** Whose a request is. */
export type DenialCaller = Pick<GatewayCaller, 'operator' | 'policyEnvelopeId' | 'sandboxId' | 'scope'>

/** What a receipt of a refusal refers to. */
export function denialLinks({ scope, sandboxId, policyEnvelopeId }: DenialCaller) {
  return {
    ...scope,
    ...(sandboxId !== undefined && { sandbox_id: sandboxId }),
    policy_envelope_id: policyEnvelopeId,
  }
}

export interface DenialTerms<Facts> {
  /** One receipt for all that the facts count. */
  readonly write: (caller: DenialCaller, facts: Facts) => Promise<unknown>
  readonly together: (one: Facts, other: Facts) => Facts
}

interface Book<Facts> {
  readonly caller: DenialCaller
  left: number
  filledMs: number
  /** By their rule and what it looked at: refusals for different reasons are not added up. */
  readonly tallies: Map<string, Tally<Facts>>
}

export class Denials<Facts> {
  readonly #terms: DenialTerms<Facts>
  readonly #books = new Map<string, Book<Facts>>()

  constructor(terms: DenialTerms<Facts>) {
    this.#terms = terms
  }

  /** Whether the next refusal of a caller may have a receipt of its own; `spend` then says that it has. */
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

  /** One more that has none; those with the same `ground` are added up. */
  count(caller: DenialCaller, facts: Facts, ground: string): void {
    const { tallies } = this.#book(caller)
    let tally = tallies.get(ground)
    if (tally === undefined) {
      const { write, together } = this.#terms
      tally = pacedTally(together, async (told) => void (await write(caller, told)), PACE)
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

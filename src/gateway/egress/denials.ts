/** How refusals are written down: the first of a caller one by one, a flood as one receipt with a count. */
import { pacedTally, type Tally } from '../../lib/paced-tally.ts'
import { type EgressFacts, MAX_TOLD } from './facts.ts'
import type { Asked } from './rules.ts'
import type { CallerFacts } from './tokens.ts'

/** So many at once have receipts of their own, and one more each so often. */
const BURST = 20
const REFILL_MS = 1_000
const PACE = { everyMs: 1_000, maxMs: 60_000 }
const MAX_CALLERS = 1_000

type Write = (caller: CallerFacts, facts: EgressFacts) => Promise<unknown>

interface Book {
  readonly caller: CallerFacts
  left: number
  filledMs: number
  /** By their rule and what it looked at: refusals for different reasons are not added up. */
  readonly tallies: Map<string, Tally<EgressFacts>>
}

export class Denials {
  readonly #write: Write
  readonly #books = new Map<string, Book>()

  constructor(write: Write) {
    this.#write = write
  }

  /** Whether the next refusal of a caller may have a receipt of its own; it then counts as used. */
  isSingle(caller: CallerFacts): boolean {
    const book = this.#book(caller)
    const nowMs = performance.now()
    const filled = Math.floor((nowMs - book.filledMs) / REFILL_MS)
    if (filled > 0) {
      book.left = Math.min(BURST, book.left + filled)
      book.filledMs += filled * REFILL_MS
    }
    return book.left > 0
  }

  spend(caller: CallerFacts): void {
    this.#book(caller).left--
  }

  /** One more that has none, by the rule that refused it. */
  count(caller: CallerFacts, facts: EgressFacts, rule: string): void {
    const { tallies } = this.#book(caller)
    const key = facts.ground === 'rules' ? `${rule} ${facts.rules_digest}` : facts.ground
    let tally = tallies.get(key)
    if (tally === undefined) {
      tally = pacedTally(together, async (told) => void (await this.#write(caller, told)), PACE)
      tallies.set(key, tally)
    }
    tally.add(facts)
  }

  async close(): Promise<void> {
    const tallies = [...this.#books.values()].flatMap((book) => [...book.tallies.values()])
    await Promise.all(tallies.map((tally) => tally.close()))
  }

  #book(caller: CallerFacts): Book {
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

function together(one: EgressFacts, other: EgressFacts): EgressFacts {
  const told: Asked[] = [...one.asked]
  for (const asked of other.asked) {
    const isKnown = told.some(({ host, port }) => host === asked.host && port === asked.port)
    if (!isKnown && told.length < MAX_TOLD) told.push(asked)
  }
  return { ...one, count: one.count + other.count, asked: told } as EgressFacts
}

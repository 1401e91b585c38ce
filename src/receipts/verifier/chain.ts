/** 4. The chain: what each receipt shows by its number, its link, its key id and its HMAC. */
import { type Doubt, misnumbered, named, unlinked, wrong } from './diagnosis.ts'
import { parseVkey, textOf, type VerifierKey } from './notes.ts'
import { type Entry, hmacOf, parseJson, type Receipt } from './receipt-line.ts'
import type { Problem, VerifyOptions } from './report.ts'

export class Chain {
  unchecked = 0 // receipts whose MAC key is unknown here
  announced: VerifierKey[] = [] // by receipts that no checkpoint covers yet
  readonly #macKey: VerifyOptions['macKey']
  #previous = '0'.repeat(64)
  #kid: string | undefined

  constructor(macKey: VerifyOptions['macKey']) {
    this.#macKey = macKey
  }

  /** `segment` holds the receipts since the last checkpoint, the first of which is number `base`. */
  inspect(receipt: Receipt, segment: readonly Entry[], base: number): Doubt | undefined {
    const { seal, entry } = receipt
    const place = base + segment.length
    const bad = (problem: Problem, detail: string) => wrong(problem, detail, place, entry.id)
    if (!seal) return bad('malformed', `the line in the place of receipt ${place} is not a receipt`)
    if (seal.seq !== place) return misnumbered(place, entry, segment[seal.seq - base])
    if (seal.prev !== this.#previous) return unlinked(entry, segment.at(-1))
    this.#kid ??= seal.kid
    if (seal.kid !== this.#kid) return bad('foreign_key', `${named(entry)} is sealed by an unannounced key`)
    const key = typeof this.#macKey === 'function' ? this.#macKey(seal.kid) : this.#macKey
    if (this.#macKey && !key) this.unchecked++
    if (!key || hmacOf(receipt, key) === seal.hmac) return undefined
    return bad('bad_hmac', `${named(entry)} was not sealed with the log's key`)
  }

  /** The next receipt must link to this one; and carry another key id, if this one announces it. */
  extend({ line, text, seal, entry }: Receipt): void {
    this.#previous = entry.leaf.toString('hex')
    if (!seal || !text.includes('"key":{"next_kid":"')) return
    const { next_kid, next_vkey } = parseJson(line)?.body?.key ?? {}
    const key = parseVkey(textOf(next_vkey))
    if (!key) return
    this.#kid = textOf(next_kid)
    this.announced.push(key)
  }
}

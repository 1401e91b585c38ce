/** 4. The chain: what each receipt proves by its number, its link, its key id and its HMAC. */
import { type Doubt, diagnoseLink, diagnoseNumber, nameReceipt, wrong } from './diagnosis.ts'
import { hmacOf, type LogEntry, type ParsedReceipt, parseJson } from './receipt-line.ts'
import type { VerifierProblem, VerifyOptions } from './report.ts'
import { noteText, parseVkey, type VerifierKey } from './signed-notes.ts'

export class Chain {
  unchecked = 0 // receipts whose MAC key is missing here
  announced: VerifierKey[] = [] // by receipts that no checkpoint covers yet
  readonly #macKey: VerifyOptions['macKey']
  #previous = '0'.repeat(64)
  #kid: string | undefined

  constructor(macKey: VerifyOptions['macKey']) {
    this.#macKey = macKey
  }

  /**
   * Checks the next receipt. `segment` holds the receipts since the last checkpoint, the first of which has the number
   * `base`.
   */
  inspect(receipt: ParsedReceipt, segment: readonly LogEntry[], base: number): Doubt | undefined {
    const { seal, entry } = receipt
    const position = base + segment.length
    const bad = (problem: VerifierProblem, detail: string) => wrong(problem, detail, position, entry.id)
    if (!seal) return bad('malformed', `the line at the position of receipt ${position} is not a receipt`)
    if (seal.seq !== position) return diagnoseNumber(position, entry, segment[seal.seq - base])
    if (seal.prev !== this.#previous) return diagnoseLink(entry, segment.at(-1))
    this.#kid ??= seal.kid
    if (seal.kid !== this.#kid)
      return bad('foreign_key', `${nameReceipt(entry)} is sealed with a key that the log did not announce`)
    const key = typeof this.#macKey === 'function' ? this.#macKey(seal.kid) : this.#macKey
    if (this.#macKey && !key) this.unchecked++
    if (!key || hmacOf(receipt, key) === seal.hmac) return undefined
    return bad('bad_hmac', `${nameReceipt(entry)} was not sealed with the log's key`)
  }

  /** The next receipt must link to this one, and have another key id if this one announces it. */
  extend({ line, text, seal, entry }: ParsedReceipt): void {
    this.#previous = entry.leaf.toString('hex')
    if (!seal || !text.includes('"key":{"next_kid":"')) return
    const { next_kid, next_vkey } = parseJson(line)?.body?.key ?? {}
    const key = parseVkey(noteText(next_vkey))
    if (!key) return
    this.#kid = noteText(next_kid)
    this.announced.push(key)
  }
}

/** 5. The log, line by line. */
import { Chain } from './chain.ts'
import { type Doubt, diagnose, refineDoubt, wrong } from './diagnosis.ts'
import { CompactRange, sha256Digest } from './merkle.ts'
import { type LogEntry, parseExact, policiesOf, readReceipt } from './receipt-line.ts'
import type { VerifierReport, VerifyOptions } from './report.ts'
import {
  base64,
  noteText,
  openNote,
  parseTrustedKeys,
  readCheckpoint,
  type VerifierKey,
} from './signed-notes.ts'

const MAX_RECEIPT_BYTES = 1 << 20
const MAX_SEGMENT = 65_536 // receipts between two checkpoints
const MAX_NAMED = 10 // missing policy texts
export const MAX_LINE_BYTES = 4 << 20 // a checkpoint line lists a segment's leaf hashes in base64: up to 2.8 MB

/**
 * Accepts the lines of an export in order, without line breaks. Then `finish` returns a report. No line makes it throw.
 * The constructor throws TypeError without a valid public key.
 */
export class LogVerifier {
  readonly #options: VerifyOptions
  readonly #keys: VerifierKey[]
  readonly #report: VerifierReport = { outcome: 'ok', receipts: 0, checkpoints: 0, intact: 0, missing: [] }
  readonly #chain: Chain
  readonly #againstSize: number | undefined
  #againstRoot = new CompactRange().root() // root of the first `#againstSize` receipts, once they are read
  #header: { origin: string; size: number } | undefined
  readonly #documents = new Set<string>() // digests
  readonly #undocumented = new Map<string, number>() // digests of policies, with the first receipt of each
  #tree = new CompactRange() // every receipt so far
  #proven = new CompactRange() // receipts that checkpoints cover
  #segment: LogEntry[] = [] // receipts since then
  #doubt: Doubt | undefined // the first problem in the segment; its checkpoint can show an earlier or more exact one
  #verdict: Doubt | undefined

  constructor(options: VerifyOptions) {
    this.#options = options
    this.#keys = parseTrustedKeys(options.vkeys)
    this.#chain = new Chain(options.macKey)
    this.#againstSize = readCheckpoint(options.against ?? '')?.size
  }

  /** True when no later line can change the finding. */
  get settled(): boolean {
    return this.#verdict !== undefined && this.#verdict.awaits === undefined
  }

  line(line: Buffer): void {
    if (this.settled) return
    const isSpecial = line.toString('latin1', 0, 3) === '{"_'
    if (line.length > (isSpecial ? MAX_LINE_BYTES : MAX_RECEIPT_BYTES)) this.tooLong()
    else this.#settle(isSpecial ? this.#special(line) : this.#receipt(line))
  }

  /** For a reader that does not hold such a long line. Everything after it is ignored. */
  tooLong(): void {
    const detail = `the line after ${this.#last()} is too long for a line of a log`
    this.#settle(wrong('malformed', detail, this.#tree.size))
    delete this.#verdict!.awaits
  }

  #receipt(line: Buffer): Doubt | undefined {
    const receipt = readReceipt(line)
    const { seal, entry } = receipt
    if (this.#verdict) this.#verdict = refineDoubt(this.#verdict, entry)
    if (this.#verdict) return undefined
    if (!this.#header) return wrong('malformed', 'the file does not start with the header of an export')
    if (this.#segment.length === MAX_SEGMENT)
      return wrong('malformed', `no checkpoint within ${MAX_SEGMENT} receipts`)
    if (this.#doubt) this.#doubt = refineDoubt(this.#doubt, entry)
    else this.#doubt = this.#chain.inspect(receipt, this.#segment, this.#proven.size)
    this.#chain.extend(receipt)
    this.#segment.push(entry)
    this.#tree.append(entry.leaf)
    if (this.#tree.size === this.#againstSize) this.#againstRoot = this.#tree.root()
    this.#report.receipts++
    if (!seal) return undefined
    this.#report.firstAt ??= seal.at
    this.#report.lastAt = seal.at
    if (this.#doubt) return undefined
    for (const digest of policiesOf(receipt.text)) {
      const isKnown = this.#documents.has(digest) || this.#undocumented.has(digest)
      if (!isKnown && this.#undocumented.size <= MAX_NAMED) this.#undocumented.set(digest, seal.seq)
    }
    this.#options.onReceipt?.(line, seal.seq)
    return undefined
  }

  #special(line: Buffer): Doubt | undefined {
    if (this.#verdict) return undefined
    const special = parseExact(line)
    if (!special)
      return wrong('malformed', `the line after ${this.#last()} is not in the format of an export`)
    const { _craik, _document, _checkpoint } = special
    if (!this.#header) {
      const { format, version, origin, size } = _craik ?? {}
      const isExport = format === 'craik.receipts.export' && version === 1 && Number.isSafeInteger(size)
      if (!isExport || !/^[!-~]+$/.test(noteText(origin)))
        return wrong('malformed', 'the file does not start with the header of an export, version 1')
      this.#header = { origin, size }
      this.#report.origin = origin
      return undefined
    }
    if (_checkpoint) return this.#checkpoint(_checkpoint.note, _checkpoint.leaves)
    if (!_document || this.#tree.size > 0) return wrong('malformed', `unexpected line after ${this.#last()}`)
    const digest = `sha256:${sha256Digest(Buffer.from(noteText(_document.text))).toString('hex')}`
    if (_document.digest !== digest)
      return wrong('document_edited', `a document was edited: its text has the digest ${digest}`)
    this.#documents.add(digest)
    return undefined
  }

  #checkpoint(note: unknown, leaves: unknown): Doubt | undefined {
    const name = `checkpoint ${++this.#report.checkpoints}`
    const signed = openNote(noteText(note), this.#keys)
    if (!signed.ok) return wrong(signed.problem, `${name} ${signed.why}`)
    const { origin, size, root } = signed
    if (origin !== this.#header!.origin)
      return wrong('malformed', `${name} belongs to another log, ${origin}`)
    const base = this.#proven.size
    const count = this.#tree.size
    const listed = splitHashes(base64(leaves))
    const difference = this.#firstDifference(listed)
    if (this.#tree.matches(signed)) {
      // The signature is valid although a number, a link or an HMAC is wrong: the receipt was changed before it was
      // signed.
      if (this.#doubt) return this.#doubt
      this.#proven = this.#tree.copy()
      this.#segment = []
      this.#keys.push(...this.#chain.announced.splice(0))
      Object.assign(this.#report, { intact: size, lastCheckpoint: { size, root: root.toString('base64') } })
      if (leaves === undefined || difference === undefined) return undefined
      return wrong('bad_checkpoint', `the leaf hashes of ${name} were edited; the receipts were not`)
    }
    // These are not the signed receipts. If the list has the signed root, it shows which receipts are.
    if (listed && difference !== undefined && this.#proven.copy(listed).matches(signed)) {
      this.#report.intact = base + difference
      this.#doubt = undefined
      return diagnose(this.#segment, listed, difference, base, name, this.#header!.size)
    }
    const between = `receipts ${base}–${size - 1}`
    if (count === size) return wrong('edited', `one of ${between} was edited: ${name} has a different root`)
    if (count < size) return wrong('missing', `some of ${between} are missing: ${name} covers them`)
    return wrong('bad_checkpoint', `${name} covers ${size} receipts, but ${count} precede it`)
  }

  /** Returns where the segment first differs from `leaves`, in content or length. */
  #firstDifference(leaves: readonly Buffer[] = []): number | undefined {
    const index = this.#segment.findIndex((entry, i) => !leaves[i]?.equals(entry.leaf))
    if (index >= 0) return index
    return leaves.length > this.#segment.length ? this.#segment.length : undefined
  }

  /** Returns the report. `rest` is the text after the last line break, which is empty in a complete export. */
  finish(rest?: Buffer): VerifierReport {
    if (!this.#verdict) this.#settle(this.#doubt ?? this.#ending(rest))
    if (this.#verdict) {
      const { problem, detail, seq, id } = this.#verdict
      return { ...this.#report, outcome: 'tampered', finding: wrong(problem, detail, seq, id) }
    }
    const { receipts, checkpoints, intact, missing } = this.#report
    const { unchecked } = this.#chain
    if (intact === 0 && checkpoints === 0) missing.push('no checkpoint: nothing in the file is signed')
    else if (receipts > intact)
      missing.push(`receipts from ${intact} onwards follow the last checkpoint: no signature covers them yet`)
    if (unchecked) missing.push(`the HMAC of ${unchecked} receipts was not checked: their key is not known`)
    for (const [digest, seq] of [...this.#undocumented].slice(0, MAX_NAMED))
      missing.push(`the policy text ${digest} that decided receipt ${seq} is not in the file`)
    if (this.#undocumented.size > MAX_NAMED) missing.push('more policy texts are not in the file')
    return { ...this.#report, outcome: missing.length > 0 ? 'incomplete' : 'ok' }
  }

  #ending(rest: Buffer | undefined): Doubt | undefined {
    const count = this.#tree.size
    if (rest?.length)
      return wrong('truncated', `the file ends in the middle of the line after ${this.#last()}`, count)
    if (!this.#header) return wrong('malformed', 'the file is empty')
    const promised = `its header states ${this.#header.size} receipts`
    if (count < this.#header.size)
      return wrong('truncated', `the file ends after ${this.#last()}: ${promised}`, count)
    if (count > this.#header.size)
      return wrong('malformed', `the file contains ${count} receipts: ${promised}`)
    return this.#options.against === undefined ? undefined : this.#compare(this.#options.against, count)
  }

  /** Compares the saved checkpoint last, because every key that can have signed it is known then. */
  #compare(note: string, count: number): Doubt | undefined {
    const held = openNote(note, this.#keys)
    if (!held.ok || held.origin !== this.#header!.origin) {
      this.#report.missing.push(`the saved checkpoint ${held.ok ? 'belongs to another log' : held.why}`)
      return undefined
    }
    const covers = `the saved checkpoint covers ${held.size} receipts`
    if (held.size > count) return wrong('truncated', `the log ends after ${this.#last()}: ${covers}`, count)
    if (!this.#againstRoot.equals(held.root)) {
      this.#report.intact = 0
      return wrong('edited', `the log was rewritten: ${covers} with a different root`)
    }
    this.#report.intact = Math.max(this.#report.intact, held.size)
    return undefined
  }

  /** A finding is final, except for the receipt that it awaits. An earlier doubt takes precedence. */
  #settle(found: Doubt | undefined): void {
    if (found) this.#verdict ??= this.#doubt ?? found
  }

  #last(): string {
    return this.#tree.size === 0 ? 'the header' : `receipt ${this.#tree.size - 1}`
  }
}

/** Splits the list into leaf hashes of 32 bytes, which have no separators. */
function splitHashes(bytes: Buffer | undefined): Buffer[] | undefined {
  if (!bytes || bytes.length % 32 !== 0) return undefined
  return Array.from({ length: bytes.length / 32 }, (_, i) => bytes.subarray(i * 32, i * 32 + 32))
}

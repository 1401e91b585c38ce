#!/usr/bin/env node
/**
 * Verifies a Craik receipt log offline: every receipt is complete, at its position and covered by a signature.
 *
 * It needs a file, the log's public key and Node 20 or newer. It writes nothing and uses no network. In order:
 *   1. the Merkle tree (RFC 6962)   which receipts a root covers
 *   2. signed notes (C2SP)          who signed a root
 *   3. one receipt line             the position of its number, link and key id
 *   4. the chain                    whether each receipt follows from the previous one
 *   5. the log                      line by line, in constant memory: whether it is intact
 *   6. the diagnosis                which receipt is bad, and how; it decides nothing and only names
 *   7. files and proofs             where the bytes come from
 *   8. the command line             the question, and the answer in words
 */
import * as crypto from 'node:crypto'
import { closeSync, constants, createReadStream, fstatSync, openSync, readSync } from 'node:fs'

// ------ 1. The Merkle tree. The first byte distinguishes leaves from nodes: neither can pass for the other.

// Node before 20.12 has no one-shot hash. A Latin-1 string is twice as fast as a separate Buffer.
const sha256Digest =
  typeof crypto.hash === 'function'
    ? (bytes) => Buffer.from(crypto.hash('sha256', bytes, 'binary'), 'latin1')
    : (bytes) => crypto.createHash('sha256').update(bytes).digest()

const LEAF = Buffer.of(0)
const NODE = Buffer.of(1)

function leafHash(line) {
  return sha256Digest(Buffer.concat([LEAF, line]))
}

function nodeHash(left, right) {
  return sha256Digest(Buffer.concat([NODE, left, right]))
}

/** A tree that only grows. It stores the roots of its complete subtrees, one for each 1 bit of its size. */
class CompactRange {
  size = 0
  #peaks = []

  append(leaf) {
    let hash = leaf
    for (let n = this.size; n % 2 === 1; n = (n - 1) / 2) hash = nodeHash(this.#peaks.pop(), hash)
    this.#peaks.push(hash)
    this.size++
  }

  root() {
    if (this.size === 0) return sha256Digest(Buffer.alloc(0))
    return this.#peaks.reduceRight((right, left) => nodeHash(left, right))
  }

  matches(checkpoint) {
    return this.size === checkpoint.size && this.root().equals(checkpoint.root)
  }

  /** Returns a copy with the leaves of `more` appended. */
  copy(more = []) {
    const copy = new CompactRange()
    copy.size = this.size
    copy.#peaks = [...this.#peaks]
    for (const leaf of more) copy.append(leaf)
    return copy
  }
}

/** Returns where RFC 6962 splits a tree of `size` leaves: the largest power of two below `size` goes left. */
function leftSize(size) {
  let left = 1
  while (left * 2 < size) left *= 2
  return left
}

/**
 * Returns whether `leaf` is number `index` in the tree of `size` leaves with `root`. `hashes` are its siblings, lowest
 * first.
 */
function verifyInclusion(leaf, index, size, hashes, root) {
  const path = [...hashes]
  const climb = (i, n) => {
    if (n === 1) return path.length === 0 ? leaf : undefined
    const [left, sibling] = [leftSize(n), path.pop()]
    const below = sibling && (i < left ? climb(i, left) : climb(i - left, n - left))
    return below && (i < left ? nodeHash(below, sibling) : nodeHash(sibling, below))
  }
  return leaf.length === 32 && index >= 0 && index < size && climb(index, size)?.equals(root) === true
}

/**
 * Returns whether the tree of `size2` begins with the tree of `size1`. An empty first tree proves nothing, so it
 * returns false.
 */
function verifyConsistency(size1, root1, size2, root2, hashes) {
  const path = [...hashes]
  // Rebuilds both roots together: [of the old tree, of the new tree].
  const climb = (old, n, isLeftEdge) => {
    if (old === n) {
      const shared = isLeftEdge ? root1 : path.pop()
      return shared && path.length === 0 ? [shared, shared] : undefined
    }
    const [left, sibling] = [leftSize(n), path.pop()]
    const below = sibling && (old <= left ? climb(old, left, isLeftEdge) : climb(old - left, n - left, false))
    if (!below) return undefined
    if (old <= left) return [below[0], nodeHash(below[1], sibling)]
    return [nodeHash(sibling, below[0]), nodeHash(sibling, below[1])]
  }
  const roots = size1 > 0 && size1 <= size2 ? climb(size1, size2, true) : undefined
  return roots ? roots[0].equals(root1) && roots[1].equals(root2) : false
}

// ------ 2. Signed notes: https://c2sp.org/signed-note, https://c2sp.org/tlog-checkpoint

/** A value in a file can have any type, and even String() can throw on it. */
function noteText(value) {
  return typeof value === 'string' ? value : ''
}

/** Decodes base64 in its one canonical form, or returns nothing. */
function base64(value) {
  const bytes = Buffer.from(noteText(value), 'base64')
  return bytes.toString('base64') === value ? bytes : undefined
}

/** Parses `<name>+<key id>+<base64(0x01 ‖ public key)>`. The id must match the name and key. */
function parseVkey(text) {
  const [, name, keyId, encoded] = /^([!-*,-~]+)\+([0-9a-f]{8})\+(\S+)$/.exec(text.trim()) ?? []
  const bytes = base64(encoded)
  if (!name || !keyId || bytes?.length !== 33 || bytes[0] !== 1) return undefined
  if (sha256Digest(Buffer.concat([Buffer.from(`${name}\n`), bytes])).toString('hex', 0, 4) !== keyId)
    return undefined
  const key = { kty: 'OKP', crv: 'Ed25519', x: bytes.toString('base64url', 1) }
  return { name, keyId, publicKey: crypto.createPublicKey({ key, format: 'jwk' }) }
}

/** Reads the signed text of a note (up to the blank line) as a checkpoint, with any signer. */
function readCheckpoint(note) {
  const [, origin, size, encoded] = /^([!-~]+)\n(0|[1-9]\d{0,14})\n(\S{44})\n\n/.exec(note) ?? []
  const root = base64(encoded)
  return origin && root?.length === 32 ? { origin, size: Number(size), root } : undefined
}

/** Returns a checkpoint that one of `keys` signed in the log's own name. Ignores signatures by unknown keys. */
function openNote(note, keys) {
  const invalidNote = (problem, why) => ({ ok: false, problem, why })
  const end = note.lastIndexOf('\n\n')
  if (end < 0 || !note.endsWith('\n')) return invalidNote('malformed', 'is not a signed note')
  const text = Buffer.from(note.slice(0, end + 1))
  let signer
  for (const line of note.slice(end + 2, -1).split('\n', 100)) {
    const [, name, encoded] = /^— ([^\s+]+) (\S+)$/.exec(line) ?? []
    const bytes = base64(encoded)
    if (!bytes || bytes.length < 5) return invalidNote('malformed', 'has an invalid signature line')
    const key = keys.find((known) => known.name === name && known.keyId === bytes.toString('hex', 0, 4))
    if (!key) continue
    if (!crypto.verify(null, text, key.publicKey, bytes.subarray(4)))
      return invalidNote('bad_checkpoint', `was changed: the signature of key ${key.keyId} does not match`)
    signer = key
  }
  if (!signer) return invalidNote('foreign_key', 'is not signed by a trusted key')
  const checkpoint = readCheckpoint(note)
  if (checkpoint?.origin !== signer.name)
    return invalidNote('malformed', "is not a checkpoint of its signer's log")
  return { ok: true, keyId: signer.keyId, ...checkpoint }
}

/** Throws TypeError without a key, or when one is invalid. */
function parseTrustedKeys(vkeys) {
  if (vkeys.length === 0) throw new TypeError('verification requires a public key')
  return vkeys.map((text) => {
    const key = parseVkey(text)
    if (!key) throw new TypeError('invalid public key: expected <name>+<8 hex digits>+<base64>')
    return key
  })
}

// ------ 3. One receipt line: {"body":{…},"seal":{…}}

const SEAL = new RegExp(
  '^},"seal":{"at":"(\\d{4}-\\d\\d-\\d\\dT\\d\\d:\\d\\d:\\d\\d\\.\\d{3}Z)","kid":"([0-9a-f]{16})",' +
    '"prev":"([0-9a-f]{64})","receipt_hmac":"([0-9a-f]{64})","seq":(0|[1-9]\\d{0,14})}}$',
)

function readReceipt(line) {
  const text = line.toString('latin1')
  const seal = readSeal(text)
  return { line, text, seal, entry: { leaf: leafHash(line), seq: seal?.seq ?? -1, id: readId(text) } }
}

/**
 * Reads the seal from the end of the line, where canonical JSON puts it, without parsing the body. Any JSON parser
 * finds the same seal: a string cannot contain bare quotes, so the last brace closes the line's own object.
 */
function readSeal(text) {
  const match = text.startsWith('{"body":{') && SEAL.exec(text.slice(text.lastIndexOf('},"seal":{')))
  if (!match) return undefined
  return { at: match[1], kid: match[2], prev: match[3], hmac: match[4], seq: Number(match[5]) }
}

/** Reads the id, to name a receipt to a person. Only this alphabet reaches a terminal. */
function readId(text) {
  return /"id":"(rcpt_[0-9A-HJKMNP-TV-Z]{26})"/.exec(text)?.[1]
}

/** Computes the HMAC over the line without the HMAC's own member, `"receipt_hmac":"<64 hex>",` (82 bytes). */
function hmacOf({ line, text }, key) {
  const start = text.lastIndexOf('"receipt_hmac":"')
  const hmac = crypto.createHmac('sha256', key).update(line.subarray(0, start))
  return hmac.update(line.subarray(start + 82)).digest('hex')
}

const POLICY = '"policy_digest":"'

/** Returns the digests of the policies that a receipt's decision names. A string cannot contain a bare quote. */
function policiesOf(text) {
  const found = []
  for (let at = text.indexOf(POLICY); at >= 0; at = text.indexOf(POLICY, at + POLICY.length)) {
    const digest = text.slice(at + POLICY.length, at + POLICY.length + 71)
    if (!found.includes(digest) && /^sha256:[0-9a-f]{64}$/.test(digest)) found.push(digest)
  }
  return found
}

/**
 * Parses a value only if the file has it in the format of an export. JSON parsers differ on duplicate members, so other
 * readers of the file must see what was verified.
 */
function parseExact(bytes, indent = 0) {
  const value = parseJson(bytes)
  if (typeof value !== 'object' || value === null || Object.keys(value).length !== 1) return undefined
  return Buffer.from(JSON.stringify(value, null, indent)).equals(bytes) ? value : undefined
}

function parseJson(bytes) {
  try {
    return JSON.parse(bytes.toString())
  } catch {
    return undefined
  }
}

// ------ 4. The chain: what each receipt proves by its number, its link, its key id and its HMAC.

class Chain {
  unchecked = 0 // receipts whose MAC key is missing here
  announced = [] // by receipts that no checkpoint covers yet
  #macKey
  #previous = '0'.repeat(64)
  #kid

  constructor(macKey) {
    this.#macKey = macKey
  }

  /**
   * Checks the next receipt. `segment` holds the receipts since the last checkpoint, the first of which has the number
   * `base`.
   */
  inspect(receipt, segment, base) {
    const { seal, entry } = receipt
    const position = base + segment.length
    const bad = (problem, detail) => wrong(problem, detail, position, entry.id)
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
  extend({ line, text, seal, entry }) {
    this.#previous = entry.leaf.toString('hex')
    if (!seal || !text.includes('"key":{"next_kid":"')) return
    const { next_kid, next_vkey } = parseJson(line)?.body?.key ?? {}
    const key = parseVkey(noteText(next_vkey))
    if (!key) return
    this.#kid = noteText(next_kid)
    this.announced.push(key)
  }
}

// ------ 5. The log, line by line.

const MAX_RECEIPT_BYTES = 1 << 20
const MAX_SEGMENT = 65_536 // receipts between two checkpoints
const MAX_NAMED = 10 // missing policy texts
const MAX_LINE_BYTES = 4 << 20 // a checkpoint line lists a segment's leaf hashes in base64: up to 2.8 MB

/**
 * Accepts the lines of an export in order, without line breaks. Then `finish` returns a report. No line makes it throw.
 * The constructor throws TypeError without a valid public key.
 */
class LogVerifier {
  #options
  #keys
  #report = { outcome: 'ok', receipts: 0, checkpoints: 0, intact: 0, missing: [] }
  #chain
  #againstSize
  #againstRoot = new CompactRange().root() // root of the first `#againstSize` receipts, once they are read
  #header
  #documents = new Set() // digests
  #undocumented = new Map() // digests of policies, with the first receipt of each
  #tree = new CompactRange() // every receipt so far
  #proven = new CompactRange() // receipts that checkpoints cover
  #segment = [] // receipts since then
  #doubt // the first problem in the segment; its checkpoint can show an earlier or more exact one
  #verdict

  constructor(options) {
    this.#options = options
    this.#keys = parseTrustedKeys(options.vkeys)
    this.#chain = new Chain(options.macKey)
    this.#againstSize = readCheckpoint(options.against ?? '')?.size
  }

  /** True when no later line can change the finding. */
  get settled() {
    return this.#verdict !== undefined && this.#verdict.awaits === undefined
  }

  line(line) {
    if (this.settled) return
    const isSpecial = line.toString('latin1', 0, 3) === '{"_'
    if (line.length > (isSpecial ? MAX_LINE_BYTES : MAX_RECEIPT_BYTES)) this.tooLong()
    else this.#settle(isSpecial ? this.#special(line) : this.#receipt(line))
  }

  /** For a reader that does not hold such a long line. Everything after it is ignored. */
  tooLong() {
    const detail = `the line after ${this.#last()} is too long for a line of a log`
    this.#settle(wrong('malformed', detail, this.#tree.size))
    delete this.#verdict.awaits
  }

  #receipt(line) {
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

  #special(line) {
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

  #checkpoint(note, leaves) {
    const name = `checkpoint ${++this.#report.checkpoints}`
    const signed = openNote(noteText(note), this.#keys)
    if (!signed.ok) return wrong(signed.problem, `${name} ${signed.why}`)
    const { origin, size, root } = signed
    if (origin !== this.#header.origin) return wrong('malformed', `${name} belongs to another log, ${origin}`)
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
      return diagnose(this.#segment, listed, difference, base, name, this.#header.size)
    }
    const between = `receipts ${base}–${size - 1}`
    if (count === size) return wrong('edited', `one of ${between} was edited: ${name} has a different root`)
    if (count < size) return wrong('missing', `some of ${between} are missing: ${name} covers them`)
    return wrong('bad_checkpoint', `${name} covers ${size} receipts, but ${count} precede it`)
  }

  /** Returns where the segment first differs from `leaves`, in content or length. */
  #firstDifference(leaves = []) {
    const index = this.#segment.findIndex((entry, i) => !leaves[i]?.equals(entry.leaf))
    if (index >= 0) return index
    return leaves.length > this.#segment.length ? this.#segment.length : undefined
  }

  /** Returns the report. `rest` is the text after the last line break, which is empty in a complete export. */
  finish(rest) {
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

  #ending(rest) {
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
  #compare(note, count) {
    const held = openNote(note, this.#keys)
    if (!held.ok || held.origin !== this.#header.origin) {
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
  #settle(found) {
    if (found) this.#verdict ??= this.#doubt ?? found
  }

  #last() {
    return this.#tree.size === 0 ? 'the header' : `receipt ${this.#tree.size - 1}`
  }
}

/** Splits the list into leaf hashes of 32 bytes, which have no separators. */
function splitHashes(bytes) {
  if (!bytes || bytes.length % 32 !== 0) return undefined
  return Array.from({ length: bytes.length / 32 }, (_, i) => bytes.subarray(i * 32, i * 32 + 32))
}

// ------ 6. The diagnosis.

/**
 * Names the first wrong receipt. `truth` holds the signed leaf hashes from receipt `base` on, `read` those of the file.
 * They first differ at `index`. Only hashes decide, so renumbering and relinking the rest hides nothing.
 */
function diagnose(read, truth, index, base, checkpoint, promised) {
  const position = base + index
  const [here, due] = [read[index], truth[index]]
  const comesLater = (leaf) => read.some((entry, i) => i > index && entry.leaf.equals(leaf))
  if (!here) return absent(position)
  const isDueLater = due !== undefined && comesLater(due)
  const known = truth.findIndex((leaf) => leaf.equals(here.leaf))
  if (known >= 0) {
    // A signed receipt at a wrong position.
    if (known < index || comesLater(here.leaf)) return duplicateFinding(here)
    return isDueLater ? reorderedFinding(position, here) : absent(position, here)
  }
  if (due && !isDueLater) {
    // The expected receipt is missing, and another line is at its position. Is that line the edited receipt?
    const what = `its bytes do not hash to leaf ${position} of ${checkpoint}`
    const edited = wrong(
      'edited',
      `${nameReceipt({ ...here, seq: position })} was edited: ${what}`,
      position,
      here.id,
    )
    if (here.seq === position) return edited
    return read.length === truth.length ? { ...absent(position, here), ...edited } : absent(position, here)
  }
  // There is one line too many.
  if (here.seq >= 0 && here.seq < base) return duplicateFinding(here)
  if (here.seq < base + truth.length || here.seq >= promised) return insertedFinding(position, here)
  const early = `${checkpoint} follows receipt ${position}, which it does not cover`
  return {
    ...(due ? reorderedFinding(position, here) : wrong('bad_checkpoint', early)),
    awaits: here.seq,
    instead: (later) =>
      later.leaf.equals(here.leaf) ? duplicateFinding(here) : insertedFinding(position, here),
  }
}

/**
 * Receipt `here` has another number than its position. `first` is the receipt with the same number, if one was read.
 */
function diagnoseNumber(position, here, first) {
  if (here.seq > position) return absent(position, here)
  return !first || first.leaf.equals(here.leaf) ? duplicateFinding(here) : insertedFinding(position, here)
}

/** Receipt `here` does not link to `before`. No checkpoint covers `before` yet, unless it is `undefined`. */
function diagnoseLink(here, before) {
  if (!before)
    return wrong(
      'edited',
      `${nameReceipt(here)} was edited: it links to a different previous receipt`,
      here.seq,
    )
  const detail = `${nameReceipt(before)} was edited, or the link to it in receipt ${here.seq}`
  return wrong('edited', detail, before.seq, before.id)
}

/** The receipt for `position` is missing there, unless it still follows. */
function absent(position, here) {
  const detail = `receipt ${position} is missing: ${here ? nameReceipt(here) : 'its checkpoint'} is at its position`
  return {
    ...wrong('missing', detail, position),
    awaits: position,
    instead: (later) => reorderedFinding(position, here, later.id),
  }
}

function reorderedFinding(position, here, id) {
  const detail = `receipt ${position} is out of order: ${here ? nameReceipt(here) : 'its checkpoint'} is at its position`
  return wrong('reordered', detail, position, id)
}

function duplicateFinding(here) {
  return wrong('duplicated', `${nameReceipt(here)} is in the log twice`, here.seq, here.id)
}

function insertedFinding(position, here) {
  const detail = `a line was inserted at the position of receipt ${position}: ${nameReceipt(here)}`
  return wrong('inserted', detail, position, here.id)
}

function wrong(problem, detail, seq, id) {
  return { problem, detail, ...(seq !== undefined && { seq }), ...(id && { id }) }
}

function refineDoubt(doubt, later) {
  return doubt.awaits === later.seq && doubt.instead ? doubt.instead(later) : doubt
}

function nameReceipt({ seq, id }) {
  const name = seq < 0 ? 'a line that is not a receipt' : `receipt ${seq}`
  return id ? `${name} (${id.slice(0, 9)}…${id.slice(-3)})` : name
}

// ------ 7. Files and proofs.

/** Verifies an export while reading it. */
async function verifyExport(readable, options) {
  const verifier = new LogVerifier(options)
  let held = [] // a line that began in an earlier chunk
  let heldBytes = 0
  for await (const chunk of readable) {
    let start = 0
    for (let end = chunk.indexOf(0x0a); end >= 0; end = chunk.indexOf(0x0a, start)) {
      const piece = chunk.subarray(start, end)
      verifier.line(held.length > 0 ? Buffer.concat([...held, piece]) : piece)
      held = []
      heldBytes = 0
      start = end + 1
    }
    if (start < chunk.length) held.push(Buffer.from(chunk.subarray(start)))
    heldBytes += chunk.length - start
    if (heldBytes > MAX_LINE_BYTES) verifier.tooLong()
    if (verifier.settled) break
  }
  return verifier.finish(Buffer.concat(held))
}

/** Returns whether a file with this beginning is a proof. */
function isProof(start) {
  return /^\{\s*"_(proof|consistency)"/.test(start)
}

/** Verifies a file that proves a receipt in a checkpoint, or that one checkpoint continues another. */
function verifyProof(json, options) {
  const keys = parseTrustedKeys(options.vkeys)
  const report = { outcome: 'ok', receipts: 0, checkpoints: 0, intact: 0, missing: [] }
  const bad = (...what) => {
    return { ...report, outcome: 'tampered', finding: wrong(...what) }
  }
  const text = Buffer.from(json.endsWith('\n') ? json.slice(0, -1) : json)
  const { _proof, _consistency } = parseExact(text) ?? parseExact(text, 2) ?? {}
  const hashes = hashesIn((_proof ?? _consistency)?.hashes)
  if (!hashes) return bad('malformed', 'the file is not a proof')
  const signed = openNote(noteText(_proof ? _proof.checkpoint : _consistency.new), keys)
  if (!signed.ok) return bad(signed.problem, `the checkpoint of the proof ${signed.why}`)
  const { origin, size, root } = signed
  Object.assign(report, { origin, checkpoints: 1, lastCheckpoint: { size, root: root.toString('base64') } })
  if (_proof) {
    const { seal, entry } = readReceipt(Buffer.from(noteText(_proof.receipt)))
    if (!seal || seal.seq !== _proof.index)
      return bad('malformed', 'the proof does not contain the receipt that it names')
    const detail = `${nameReceipt(entry)} or its proof was edited: its root differs from the signed root`
    if (!verifyInclusion(entry.leaf, entry.seq, size, hashes, root))
      return bad('edited', detail, entry.seq, entry.id)
    return { ...report, receipts: 1, intact: 1, firstAt: seal.at, lastAt: seal.at }
  }
  const old = openNote(noteText(_consistency.old), keys)
  if (!old.ok) return bad(old.problem, `the older checkpoint of the proof ${old.why}`)
  report.checkpoints = 2
  if (old.origin !== origin) return bad('malformed', 'the two checkpoints are of different logs')
  if (old.size > size) return bad('truncated', `the log shrank from ${old.size} receipts to ${size}`, size)
  if (old.size === 0)
    return {
      ...report,
      outcome: 'incomplete',
      missing: ['the older checkpoint is of an empty log: it proves nothing'],
    }
  if (!verifyConsistency(old.size, old.root, size, root, hashes))
    return bad(
      'edited',
      `the log was rewritten: its first ${old.size} receipts differ from those of the older checkpoint`,
    )
  return { ...report, intact: old.size }
}

/** Returns SHA-256 hashes from base64, or nothing. */
function hashesIn(list) {
  const hashes = Array.isArray(list) ? list.map(base64) : [undefined]
  return hashes.every((hash) => hash?.length === 32) ? hashes : undefined
}

// ------ 8. The command line. Exit code 0: ok. 1: tampered. 2: incomplete, or a usage error.

const USAGE = `usage: node craik-verify.mjs <export.jsonl | proof.json> --public-key <file> [--against <file>]

  --public-key  the log's public key, from its operator (one per line, if there are several)
  --against     a checkpoint of the log that you saved: detects a truncated or rewritten log

example: node craik-verify.mjs audit.jsonl --public-key craik.pub`

const MAX_SMALL_FILE_BYTES = 4 << 20

async function main(args) {
  const provided = readArguments(args)
  if (!provided) return complain(USAGE)
  const started = performance.now()
  try {
    const vkeys = readSmallFile(openRegular(provided.publicKey))
      .split('\n')
      .filter((line) => line.trim() !== '')
    const fd = openRegular(provided.file)
    const proof = isProof(firstBytes(fd, 64))
    if (proof && provided.against) return complain('craik-verify: --against requires an export, not a proof')
    const against = provided.against ? { against: readSmallFile(openRegular(provided.against)) } : {}
    const report = proof
      ? verifyProof(readSmallFile(fd), { vkeys })
      : await verifyExport(createReadStream('', { fd, start: 0, highWaterMark: 1 << 20 }), {
          vkeys,
          ...against,
        })
    process.stdout.write(render(report, proof, (performance.now() - started) / 1000))
    return { ok: 0, tampered: 1, incomplete: 2 }[report.outcome]
  } catch (error) {
    return complain(`craik-verify: ${error instanceof Error ? error.message : error}`)
  }
}

function readArguments(args) {
  const provided = {}
  for (let i = 0; i < args.length; i++) {
    if (args[i] === '--public-key') provided.publicKey = args[++i] ?? ''
    else if (args[i] === '--against') provided.against = args[++i] ?? ''
    else if (args[i].startsWith('-') || provided.file) return undefined
    else provided.file = args[i]
  }
  const { file, publicKey, against } = provided
  return file && publicKey && against !== '' ? { file, publicKey, against } : undefined
}

function complain(text) {
  process.stderr.write(`${text}\n`)
  return 2
}

/** A pipe or a device can be endless, or return different bytes when it is read again. */
function openRegular(path) {
  const file = openSync(path, constants.O_RDONLY | constants.O_NONBLOCK)
  if (fstatSync(file).isFile()) return file
  closeSync(file)
  throw new Error(`${path} is not a regular file`)
}

function readSmallFile(file) {
  const text = firstBytes(file, MAX_SMALL_FILE_BYTES + 1)
  closeSync(file)
  if (Buffer.byteLength(text) > MAX_SMALL_FILE_BYTES)
    throw new Error('a public key, a checkpoint or a proof can have at most 4 MiB')
  return text
}

function firstBytes(file, bytes) {
  const buffer = Buffer.alloc(bytes)
  let length = 0
  for (let read = -1; read !== 0 && length < bytes; length += read)
    read = readSync(file, buffer, length, bytes - length, length)
  return buffer.toString('utf8', 0, length)
}

/** The result first, then what was read, what is intact and what is not. */
function render(report, ofProof, seconds) {
  const { receipts, checkpoints, firstAt, lastAt, intact, finding, missing, lastCheckpoint } = report
  const few = ['no receipt is proven intact', 'receipt 0 is intact']
  const proven = few[intact] ?? `receipts 0–${intact - 1} are intact`
  const follows = ofProof ? '' : `    ${proven}; nothing after can be trusted\n`
  if (finding) return `  ✗ ${finding.detail}\n${follows}`
  const days = firstAt && lastAt ? ` · ${firstAt.slice(0, 10)} → ${lastAt.slice(0, 10)}` : ''
  const summary = `  ${formatCount(receipts, 'receipt')}${days} · ${formatCount(checkpoints, 'checkpoint')}\n`
  if (missing.length > 0) return `${summary}${missing.map((line) => `  – ${line}\n`).join('')}    ${proven}\n`
  const passed = ofProof ? 'signatures ✓  proof ✓' : 'chain ✓  signatures ✓  tree ✓'
  const answer = `${summary}  ${passed}     ${seconds.toFixed(1)} s\n`
  if (!lastCheckpoint) return answer
  return `${answer}  root ${lastCheckpoint.root} at ${formatCount(lastCheckpoint.size, 'receipt')}\n`
}

function formatCount(count, noun) {
  return `${count.toLocaleString('en-US')} ${noun}${count === 1 ? '' : 's'}`
}

process.exitCode = await main(process.argv.slice(2))

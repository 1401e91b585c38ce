/** 7. Files and proofs. */
import { nameReceipt, wrong } from './diagnosis.ts'
import { LogVerifier, MAX_LINE_BYTES } from './log-verifier.ts'
import { verifyConsistency, verifyInclusion } from './merkle.ts'
import { parseExact, readReceipt } from './receipt-line.ts'
import type { VerifierReport, VerifyOptions } from './report.ts'
import { base64, noteText, openNote, parseTrustedKeys } from './signed-notes.ts'

/** Verifies an export while reading it. */
export async function verifyExport(
  readable: AsyncIterable<Buffer>,
  options: VerifyOptions,
): Promise<VerifierReport> {
  const verifier = new LogVerifier(options)
  let held: Buffer[] = [] // a line that began in an earlier chunk
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
export function isProof(start: string): boolean {
  return /^\{\s*"_(proof|consistency)"/.test(start)
}

/** Verifies a file that proves a receipt in a checkpoint, or that one checkpoint continues another. */
export function verifyProof(json: string, options: Pick<VerifyOptions, 'vkeys'>): VerifierReport {
  const keys = parseTrustedKeys(options.vkeys)
  const report: VerifierReport = { outcome: 'ok', receipts: 0, checkpoints: 0, intact: 0, missing: [] }
  const bad = (...what: Parameters<typeof wrong>): VerifierReport => {
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
function hashesIn(list: unknown): Buffer[] | undefined {
  const hashes = Array.isArray(list) ? list.map(base64) : [undefined]
  return hashes.every((hash) => hash?.length === 32) ? (hashes as Buffer[]) : undefined
}

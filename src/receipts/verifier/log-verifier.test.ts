import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { canonicalJson } from '../../lib/canonical-json.ts'
import { checkpointText, signNote } from '../note.ts'
import { buildLog, receiptBody, sealLine, TEST_ORIGIN, testKeys } from '../receipt-log.fixture.ts'
import {
  always,
  at,
  cases,
  isCheckpoint,
  isReceipt,
  leafOf,
  logs,
  trust,
  verifyBytes,
  verifyLines,
  withLine,
  withSize,
} from './forgery.fixture.ts'
import { LogVerifier } from './log-verifier.ts'
import { CompactRange } from './merkle.ts'

describe('a log that nobody touched', () => {
  it('verifies completely, up to its last receipt', () => {
    fc.assert(
      fc.property(logs, (log) => {
        const size = log.leaves.length
        const report = verifyLines(log.lines, trust(log), {
          macKey: (kid) => log.keys.find((k) => k.kid === kid)?.macKey,
        })
        expect(report).toMatchObject({
          outcome: 'ok',
          receipts: size,
          intact: size,
          missing: [],
          origin: TEST_ORIGIN,
        })
        expect(report.checkpoints).toBe(log.notes.length)
        expect(report.lastCheckpoint?.size).toBe(size)
      }),
      always,
    )
  })

  it('verifies with any chunk boundaries', async () => {
    const log = buildLog({ receipts: 30, checkpoints: [10, 30] })
    const bytes = Buffer.from(`${log.lines.join('\n')}\n`)
    for (const size of [1, 7, 500, 4096])
      expect((await verifyBytes(bytes, trust(log), size)).outcome).toBe('ok')
  })

  it('passes on each receipt in order', () => {
    const log = buildLog({ receipts: 20, checkpoints: [20] })
    const seen: string[] = []
    verifyLines(log.lines, trust(log), { onReceipt: (line, seq) => seen.push(`${seq} ${line}`) })
    expect(seen).toEqual(log.lines.filter(isReceipt).map((line, seq) => `${seq} ${line}`))
  })

  it('is incomplete after its last checkpoint', () => {
    fc.assert(
      fc.property(cases, ({ log, size, k }) => {
        const covered = JSON.parse(
          log.lines.findLast((l, i) => isCheckpoint(l) && i < log.lines.length - 1) ?? '{}',
        )
        const expected = covered._checkpoint ? Number(covered._checkpoint.note.split('\n')[1]) : 0
        const tail = log.lines.slice(0, -1)
        expect(verifyLines(tail, trust(log))).toMatchObject({ outcome: 'incomplete', intact: expected })
        const cut = withSize(tail.slice(0, Math.max(at(tail, k), 1)), k)
        expect(verifyLines(cut, trust(log)).outcome).not.toBe('tampered')
        expect(verifyLines(cut, trust(log)).intact).toBeLessThanOrEqual(Math.min(k, size))
      }),
      always,
    )
  })
})

describe('policies', () => {
  const keys = testKeys('test 0')
  const text = 'permit (principal, action, resource);'
  const { lines: empty } = buildLog({ receipts: 0, checkpoints: [], documents: [text] })
  const known = JSON.parse(empty[1]!)._document.digest as string

  /** Returns a log with one receipt for each digest. */
  function decisionLog(...digests: string[]): string[] {
    const tree = new CompactRange()
    let prev = '0'.repeat(64)
    const receipts = digests.map((policy_digest, seq) => {
      const line = sealLine(
        { ...receiptBody(seq), decision: { effect: 'allow', policy_digest } },
        seq,
        prev,
        keys,
      )
      prev = leafOf(line).toString('hex')
      tree.append(leafOf(line))
      return line
    })
    const note = signNote(checkpointText(TEST_ORIGIN, tree.size, tree.root()), TEST_ORIGIN, keys.signingKey)
    return [...withSize(empty, digests.length), ...receipts, canonicalJson({ _checkpoint: { note } })]
  }
  const digestOf = (n: number) => `sha256:${n.toString(16).padStart(64, '0')}`

  it('of receipts must be in the file, or it is incomplete', () => {
    expect(verifyLines(decisionLog(known, known), [keys.vkey])).toMatchObject({ outcome: 'ok', missing: [] })
    expect(verifyLines(decisionLog(known, digestOf(1), digestOf(1)), [keys.vkey])).toMatchObject({
      outcome: 'incomplete',
      intact: 3,
      missing: [`the policy text ${digestOf(1)} that decided receipt 1 is not in the file`],
    })
    const without = decisionLog(known).toSpliced(1, 1)
    expect(verifyLines(without, [keys.vkey])).toMatchObject({ outcome: 'incomplete', intact: 1 })
  })

  it('are not read from text that a receipt quotes', () => {
    const quoted = decisionLog(`"policy_digest":"${digestOf(1)}"`)
    expect(verifyLines(quoted, [keys.vkey]).outcome).toBe('ok')
  })

  it('are named up to a limit', () => {
    const many = decisionLog(...Array.from({ length: 500 }, (_, n) => digestOf(n)))
    const { outcome, missing } = verifyLines(many, [keys.vkey])
    expect([outcome, missing.length]).toEqual(['incomplete', 11])
    expect(missing.at(-1)).toBe('more policy texts are not in the file')
  })
})

describe('keys', () => {
  const log = buildLog({ receipts: 30, checkpoints: [10, 20, 30], rotations: [9, 19] })

  it('follow each other when the log announces them under a trusted signature', () => {
    expect(log.keys).toHaveLength(3)
    expect(verifyLines(log.lines, trust(log))).toMatchObject({ outcome: 'ok', checkpoints: 3 })
  })

  it('are not taken from the header', () => {
    const stranger = buildLog({ receipts: 30, checkpoints: [30], seed: 'stranger' })
    const report = verifyLines(stranger.lines, trust(log))
    expect(report).toMatchObject({ outcome: 'tampered', intact: 0, finding: { problem: 'foreign_key' } })
  })

  it('are not taken from a receipt that no trusted signature covers yet', () => {
    const [, next] = log.keys
    const tree = new CompactRange()
    for (const leaf of log.leaves.slice(0, 10)) tree.append(leaf)
    const note = signNote(checkpointText(TEST_ORIGIN, 10, tree.root()), TEST_ORIGIN, next!.signingKey)
    const early = log.lines.map((line) =>
      line.includes('\\n10\\n') ? canonicalJson({ _checkpoint: { note } }) : line,
    )
    expect(verifyLines(early, trust(log))).toMatchObject({ finding: { problem: 'foreign_key' }, intact: 0 })
  })

  it('cannot change without an announcement, even under a valid signature', () => {
    const [ours, stranger] = [testKeys('test 0'), testKeys('stranger')]
    const first = sealLine(receiptBody(0), 0, '0'.repeat(64), ours)
    const second = sealLine(receiptBody(1), 1, leafOf(first).toString('hex'), stranger)
    const tree = new CompactRange()
    for (const line of [first, second]) tree.append(leafOf(line))
    const note = signNote(checkpointText(TEST_ORIGIN, 2, tree.root()), TEST_ORIGIN, ours.signingKey)
    const lines = [withSize(log.lines, 2)[0]!, first, second, canonicalJson({ _checkpoint: { note } })]
    expect(verifyLines(lines, trust(log))).toMatchObject({ finding: { problem: 'foreign_key', seq: 1 } })
  })

  it('sign only their own text: a changed note is a bad checkpoint', () => {
    const lines = log.lines.map((line) => line.replace('\\n20\\n', '\\n21\\n'))
    const report = verifyLines(lines, trust(log))
    expect(report).toMatchObject({ intact: 10, finding: { problem: 'bad_checkpoint' } })
  })

  it('show an HMAC of another key', () => {
    const report = verifyLines(log.lines, trust(log), { macKey: Buffer.alloc(32) })
    expect(report).toMatchObject({ outcome: 'tampered', finding: { problem: 'bad_hmac', seq: 0 } })
  })

  it('leave the check incomplete when one is missing', () => {
    const report = verifyLines(log.lines, trust(log), {
      macKey: (kid) => (kid === log.keys[0]!.kid ? log.keys[0]!.macKey : undefined),
    })
    expect(report).toMatchObject({ outcome: 'incomplete', intact: 30 })
    expect(report.missing).toEqual(['the HMAC of 20 receipts was not checked: their key is not known'])
  })

  it('are required', () => {
    expect(() => new LogVerifier({ vkeys: [] })).toThrow(TypeError)
    expect(() => new LogVerifier({ vkeys: ['not a key'] })).toThrow(TypeError)
  })
})

describe('a log with an edited header, document or checkpoint', () => {
  const log = buildLog({
    receipts: 12,
    checkpoints: [5, 12],
    documents: ['permit (principal, action, resource);'],
  })

  it('is refused for a document that does not match its digest', () => {
    const lines = log.lines.map((line) => line.replace('permit', 'forbid'))
    expect(verifyLines(lines, trust(log))).toMatchObject({
      finding: { problem: 'document_edited' },
      intact: 0,
    })
  })

  it('is refused for an edited list of leaf hashes, even with unchanged receipts', () => {
    const line = log.lines.find(isCheckpoint)!
    const leaves = Buffer.from(JSON.parse(line)._checkpoint.leaves, 'base64')
    leaves[40]! ^= 1
    const edited = canonicalJson({ _checkpoint: { leaves: leaves.toString('base64'), note: log.notes[0]! } })
    const report = verifyLines(withLine(log.lines, log.lines.indexOf(line), edited), trust(log))
    expect(report).toMatchObject({ intact: 5, finding: { problem: 'bad_checkpoint' } })
  })

  it('is refused for a moved checkpoint line', () => {
    const from = log.lines.findIndex(isCheckpoint)
    const moved = log.lines.toSpliced(from, 1).toSpliced(from + 1, 0, log.lines[from]!)
    expect(verifyLines(moved, trust(log))).toMatchObject({
      intact: 5,
      finding: { problem: 'bad_checkpoint' },
    })
  })

  it.each([
    ['no header', (lines: string[]) => lines.slice(1)],
    ['two headers', (lines: string[]) => [lines[0]!, ...lines]],
    [
      'another version',
      (lines: string[]) => withLine(lines, 0, lines[0]!.replace('"version":1', '"version":2')),
    ],
    ['another origin', (lines: string[]) => withLine(lines, 0, lines[0]!.replace('5eed', '5eee'))],
    ['a size too small', (lines: string[]) => withSize(lines, 11)],
    ['a document at the end', (lines: string[]) => [...lines, lines[1]!]],
    ['a line of an unknown kind', (lines: string[]) => [...lines, '{"_other":{}}']],
    ['carriage returns', (lines: string[]) => lines.map((line) => (isReceipt(line) ? `${line}\r` : line))],
    ['nothing at all', () => []],
  ])('is refused with %s', (_, change) => {
    const report = verifyLines(change(log.lines), trust(log))
    expect(report.outcome).toBe('tampered')
  })
})

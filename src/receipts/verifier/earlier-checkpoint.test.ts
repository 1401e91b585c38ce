import { describe, expect, it } from 'vitest'
import { checkpointText, signNote } from '../note.ts'
import { buildLog, TEST_ORIGIN, testKeys } from '../receipt-log.fixture.ts'
import { isCheckpoint, trust, verifyLines, withSize } from './forgery.fixture.ts'
import { CompactRange } from './merkle.ts'

describe('a log cut back to an older checkpoint', () => {
  const log = buildLog({ receipts: 40, checkpoints: [10, 25, 40], rotations: [24] })
  const end = log.lines.findIndex((line) => isCheckpoint(line) && line.includes('\\n25\\n')) + 1
  const cut = withSize(log.lines.slice(0, end), 25)

  it('looks complete by itself, because nothing in a log can show the cut', () => {
    expect(verifyLines(cut, trust(log))).toMatchObject({ outcome: 'ok', receipts: 25 })
  })

  it('is truncated compared with a newer checkpoint from elsewhere', () => {
    const report = verifyLines(cut, trust(log), { against: log.notes[2]! })
    expect(report).toMatchObject({
      outcome: 'tampered',
      intact: 25,
      finding: { problem: 'truncated', seq: 25 },
    })
  })

  it('is only incomplete when nothing trusted announced the newer key', () => {
    const before = withSize(log.lines.slice(0, log.lines.findIndex(isCheckpoint) + 1), 10)
    expect(verifyLines(before, trust(log), { against: log.notes[2]! })).toMatchObject({
      outcome: 'incomplete',
    })
    const both = log.keys.map((key) => key.vkey)
    expect(verifyLines(before, both, { against: log.notes[2]! })).toMatchObject({
      finding: { problem: 'truncated' },
    })
  })
})

describe('a checkpoint from elsewhere', () => {
  const log = buildLog({ receipts: 40, checkpoints: [10, 40] })
  const noteAt = (size: number, leaves = log.leaves, key = log.keys[0]!) => {
    const tree = new CompactRange()
    for (const leaf of leaves.slice(0, size)) tree.append(leaf)
    return signNote(checkpointText(TEST_ORIGIN, size, tree.root()), TEST_ORIGIN, key.signingKey)
  }

  it('agrees at any size', () => {
    for (const size of [0, 1, 10, 17, 40])
      expect(verifyLines(log.lines, trust(log), { against: noteAt(size) }).outcome).toBe('ok')
  })

  it('reveals a log that its own key rewrote', () => {
    const rewritten = buildLog({ receipts: 40, checkpoints: [10, 40], targetBytes: 64 })
    const report = verifyLines(rewritten.lines, trust(log), { against: noteAt(17) })
    expect(verifyLines(rewritten.lines, trust(log)).outcome).toBe('ok')
    expect(report).toMatchObject({ outcome: 'tampered', intact: 0, finding: { problem: 'edited' } })
  })

  it('covers receipts that no checkpoint of the export covers', () => {
    const report = verifyLines(log.lines.slice(0, -1), trust(log), { against: noteAt(40) })
    expect(report).toMatchObject({ outcome: 'ok', intact: 40 })
  })

  it('proves nothing when no trusted key signed it', () => {
    const foreign = noteAt(40, log.leaves, testKeys('stranger'))
    for (const against of [foreign, 'no note', ''])
      expect(verifyLines(log.lines, trust(log), { against })).toMatchObject({
        outcome: 'incomplete',
        intact: 40,
      })
  })
})

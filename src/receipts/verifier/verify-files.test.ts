import { describe, expect, it } from 'vitest'
import { buildLog, TEST_ORIGIN } from '../receipt-log.fixture.ts'
import { consistencyProof, inclusionProof, type TreeReader } from '../tree.ts'
import { at, trust } from './forgery.fixture.ts'
import { verifyProof } from './verify-files.ts'

describe('proof files', () => {
  const log = buildLog({ receipts: 40, checkpoints: [10, 40] })
  const reader: TreeReader = { leaves: (from, to) => log.leaves.slice(from, to), node: () => undefined }
  const encode = (hashes: Buffer[]) => hashes.map((hash) => hash.toString('base64'))
  const proofOf = async (index: number) => ({
    checkpoint: log.notes[1]!,
    hashes: encode(await inclusionProof(reader, index, 40)),
    index,
    receipt: log.lines[at(log.lines, index)]!,
  })
  const verify = (value: unknown) => verifyProof(JSON.stringify(value), { vkeys: trust(log) })

  it('prove one receipt by itself', async () => {
    for (const index of [0, 17, 39])
      expect(verify({ _proof: await proofOf(index) })).toMatchObject({
        outcome: 'ok',
        receipts: 1,
        origin: TEST_ORIGIN,
      })
  })

  it('prove no other receipt', async () => {
    const proof = await proofOf(17)
    const receipt = proof.receipt.replace('passed', 'failed')
    expect(verify({ _proof: { ...proof, receipt } })).toMatchObject({
      finding: { problem: 'edited', seq: 17 },
    })
    expect(verify({ _proof: { ...proof, index: 18 } })).toMatchObject({ finding: { problem: 'malformed' } })
    expect(verify({ _proof: { ...proof, hashes: proof.hashes.slice(1) } })).toMatchObject({
      finding: { seq: 17 },
    })
    expect(verify({ _proof: { ...proof, checkpoint: log.notes[0] } })).toMatchObject({ outcome: 'tampered' })
  })

  it('have one format, or an indentation of two, and no duplicate members', async () => {
    const proof = { _proof: await proofOf(17) }
    const consistency = {
      hashes: encode(await consistencyProof(reader, 10, 40)),
      new: log.notes[1],
      old: log.notes[0],
    }
    for (const [value, member] of [
      [proof, '"receipt":"{}",'],
      [{ _consistency: consistency }, '"old":"",'],
    ] as const) {
      const verify = (text: string) => verifyProof(text, { vkeys: trust(log) })
      const text = JSON.stringify(value)
      expect(verify(`${text}\n`).outcome).toBe('ok')
      expect(verify(`${JSON.stringify(value, null, 2)}\n`).outcome).toBe('ok')
      for (const forged of [text.replace(':{', `:{${member}`), text.replace(':', ': '), `${text}\n\n`])
        expect(verify(forged)).toMatchObject({ finding: { problem: 'malformed' } })
    }
  })

  it('prove that one checkpoint continues another', async () => {
    const consistency = {
      hashes: encode(await consistencyProof(reader, 10, 40)),
      new: log.notes[1],
      old: log.notes[0],
    }
    expect(verify({ _consistency: consistency })).toMatchObject({ outcome: 'ok', checkpoints: 2, intact: 10 })
    const swapped = { ...consistency, new: consistency.old, old: consistency.new }
    expect(verify({ _consistency: swapped })).toMatchObject({ finding: { problem: 'truncated' } })
    expect(verify({ _consistency: { ...consistency, hashes: [] } })).toMatchObject({
      finding: { problem: 'edited' },
    })
  })
})

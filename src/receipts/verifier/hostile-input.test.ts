import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { buildLog } from '../receipt-log.fixture.ts'
import { trust, verifyBytes, verifyLines, withLine } from './forgery.fixture.ts'
import { LogVerifier } from './log-verifier.ts'
import { verifyExport, verifyProof } from './verify-files.ts'

describe('hostile input', () => {
  const log = buildLog({ receipts: 12, checkpoints: [5, 12] })
  const bytes = Buffer.from(`${log.lines.join('\n')}\n`)

  it('never throws and is never ok', async () => {
    await fc.assert(
      fc.asyncProperty(fc.uint8Array({ maxLength: 3000 }), fc.nat(5000), async (garbage, keep) => {
        const file = Buffer.concat([bytes.subarray(0, keep), Buffer.from(garbage)])
        expect((await verifyBytes(file, trust(log))).outcome).not.toBe('ok')
        expect(verifyProof(Buffer.from(garbage).toString(), { vkeys: trust(log) }).outcome).toBe('tampered')
      }),
      { numRuns: 300 },
    )
  })

  it('never throws on any JSON instead of a line', () => {
    const names = fc.constantFrom(
      '_craik',
      '_document',
      '_checkpoint',
      '_proof',
      '_consistency',
      'note',
      'leaves',
      'toString',
      'valueOf',
      'hashes',
      'key',
      'body',
      'origin',
      'new',
      'digest',
      'text',
    )
    const { value: values } = fc.letrec((tie) => {
      const objects = fc.dictionary(names, tie('value'), { maxKeys: 4 })
      const value = fc.oneof(
        { maxDepth: 4 },
        fc.jsonValue(),
        objects,
        fc.array(tie('value'), { maxLength: 3 }),
      )
      return { value }
    })
    fc.assert(
      fc.property(
        fc.array(fc.dictionary(names, values, { minKeys: 1, maxKeys: 3 }), { maxLength: 4 }),
        fc.nat(14),
        (extra, keep) => {
          const lines = [...log.lines.slice(0, keep), ...extra.map((value) => JSON.stringify(value))]
          expect(['tampered', 'incomplete']).toContain(verifyLines(lines, trust(log)).outcome)
          for (const line of lines) expect(verifyProof(line, { vkeys: trust(log) }).outcome).toBe('tampered')
        },
      ),
      { numRuns: 300 },
    )
  })

  it('cannot make the verifier hold an endless line or endless receipts', async () => {
    let read = 0
    async function* endless() {
      yield Buffer.from(`${log.lines[0]}\n{"body":{`)
      for (; ; read += 1 << 20) yield Buffer.alloc(1 << 20, 'x')
    }
    const report = await verifyExport(endless(), { vkeys: trust(log) })
    expect(report).toMatchObject({ outcome: 'tampered', finding: { problem: 'malformed', seq: 0 } })
    expect(read).toBeLessThan(8 << 20)

    const verifier = new LogVerifier({ vkeys: trust(log) })
    verifier.line(Buffer.from(log.lines[0]!))
    for (let n = 0; n <= 65_536; n++) verifier.line(Buffer.from('{"body":{}}'))
    expect(verifier.settled).toBe(true)
  })

  it.each([
    ['the header', 0, '{"_craik":{', '"size":3,'],
    ['a document', 1, '{"_document":{', '"text":"forbid (everything);",'],
    ['a checkpoint', -1, '{"_checkpoint":{', '"note":"none",'],
  ])('is refused with a duplicate member, also outside receipts: %s', (_, index, start, member) => {
    const { lines, ...documented } = buildLog({ receipts: 12, checkpoints: [12], documents: ['permit;'] })
    const key = trust({ lines, ...documented })
    expect(verifyLines(lines, key).outcome).toBe('ok')
    for (const forged of [start + member, `{"_other":1,${start.slice(1)}`, start.replace(':', ': ')]) {
      const changed = lines.with(index, lines.at(index)!.replace(start, forged))
      expect(verifyLines(changed, key)).toMatchObject({ finding: { problem: 'malformed' } })
    }
  })

  it('never reaches a terminal: findings contain only the verifier’s own words', () => {
    const lines = withLine(log.lines, 3, log.lines[3]!.replace(/rcpt_\w+/, '\u001b[2Jrcpt'))
    expect(verifyLines(lines, trust(log)).finding!.detail).toMatch(/^[\x20-\x7e–…]+$/)
  })
})

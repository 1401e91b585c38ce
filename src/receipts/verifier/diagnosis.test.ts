import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { buildLog, receiptBody, sealLine } from '../receipt-log.fixture.ts'
import {
  always,
  at,
  cases,
  edit,
  isReceipt,
  leafOf,
  numberOf,
  relink,
  relist,
  trust,
  verifyBytes,
  verifyLines,
  withLine,
  withoutLists,
} from './forgery.fixture.ts'
import { LogVerifier } from './log-verifier.ts'

describe('a tampered log', () => {
  type Attack = (
    lines: string[],
    c: { i: number; k: number; size: number },
  ) => { lines: string[]; problem: string; seq: number }
  const forgeLine = (lines: readonly string[], k: number) => {
    const prev = k === 0 ? '0'.repeat(64) : leafOf(lines[at(lines, k - 1)]!).toString('hex')
    const kid = JSON.parse(lines[at(lines, k)]!).seal.kid
    return sealLine({ ...receiptBody(k + 10_000) }, k, prev, { kid, macKey: Buffer.alloc(32) })
  }
  const attacks: Record<string, Attack> = {
    edit: (lines, { i }) => {
      const edited = edit(lines[at(lines, i)]!, ({ body }) => Object.assign(body, { status: 'failed' }))
      return { lines: withLine(lines, at(lines, i), edited), problem: 'edited', seq: i }
    },
    renumber: (lines, { i }) => {
      const edited = edit(lines[at(lines, i)]!, ({ seal }) => Object.assign(seal, { seq: 1_000_000 }))
      return { lines: withLine(lines, at(lines, i), edited), problem: 'edited', seq: i }
    },
    garble: (lines, { i }) => ({
      lines: withLine(lines, at(lines, i), '{"body":{}}'),
      problem: 'edited',
      seq: i,
    }),
    delete: (lines, { i }) => ({ lines: lines.toSpliced(at(lines, i), 1), problem: 'missing', seq: i }),
    swap: (lines, { i, k, size }) => {
      const [first, second] = i === k ? [i, (i + 1) % size] : [i, k]
      const [x, y] = [at(lines, first), at(lines, second)]
      const swapped = withLine(withLine(lines, x, lines[y]!), y, lines[x]!)
      return { lines: swapped, problem: 'reordered', seq: Math.min(first, second) }
    },
    move: (lines, { i, k, size }) => {
      const [from, to] = i === k ? [i, (i + 1) % size] : [i, k]
      const without = lines.toSpliced(at(lines, from), 1)
      const position = at(without, to) + (from < to ? 1 : 0)
      return {
        lines: without.toSpliced(position, 0, lines[at(lines, from)]!),
        problem: 'reordered',
        seq: Math.min(from, to),
      }
    },
    duplicate: (lines, { i, k }) => ({
      lines: lines.toSpliced(at(lines, k), 0, lines[at(lines, i)]!),
      problem: 'duplicated',
      seq: i,
    }),
    insert: (lines, { k }) => ({
      lines: lines.toSpliced(at(lines, k), 0, forgeLine(lines, k)),
      problem: 'inserted',
      seq: k,
    }),
  }

  /** A forger who corrects numbers and links undoes these edits. */
  const UNMENDABLE = ['renumber', 'garble']

  it.each(Object.keys(attacks))(
    'reports the first wrong position, whatever the forger corrects, after: %s',
    (name) => {
      fc.assert(
        fc.property(cases, ({ log, ...c }) => {
          const { lines, problem, seq } = attacks[name]!(log.lines, c)
          const plain = verifyLines(lines, trust(log))
          expect(plain).toMatchObject({ outcome: 'tampered', finding: { problem, seq } })
          if (name !== 'duplicate') expect(plain.intact).toBe(seq)

          // Without the signed leaf hashes, only numbers and links show gaps and swaps.
          const listless = verifyLines(withoutLists(lines), trust(log))
          expect(listless.outcome).toBe('tampered')
          if (name === 'swap' || (name === 'delete' && listless.finding!.seq !== undefined))
            expect(listless.finding).toMatchObject({ problem, seq })

          if (UNMENDABLE.includes(name)) return
          // With corrected numbers, a copy becomes a new receipt. The first difference is then its position, or the
          // next one if it copies the receipt that belongs there.
          const relinked = verifyLines(relink(lines), trust(log))
          const places = name === 'duplicate' ? [c.k, c.k + 1] : [seq]
          expect(relinked.outcome).toBe('tampered')
          expect(places).toContain(relinked.finding!.seq)

          // With forged lists, only the two surrounding checkpoints limit the position.
          const relisted = verifyLines(relist(relink(lines)), trust(log))
          expect(relisted.outcome).toBe('tampered')
          expect(relisted.intact).toBeLessThanOrEqual(places.at(-1)!)
        }),
        always,
      )
    },
  )

  it('is never ok when any byte of any receipt differs', () => {
    fc.assert(
      fc.property(cases, fc.nat(), fc.integer({ min: 1, max: 255 }), ({ log, i }, offset, flip) => {
        const verifier = new LogVerifier({ vkeys: trust(log) })
        for (const line of log.lines) {
          const bytes = Buffer.from(line)
          if (isReceipt(line) && numberOf(line) === i) bytes[offset % bytes.length]! ^= flip
          verifier.line(bytes)
        }
        const { outcome, finding } = verifier.finish()
        expect(outcome).toBe('tampered')
        expect(finding!.seq ?? i).toBe(i)
      }),
      { numRuns: 200 },
    )
  })

  it('is truncated when its bytes end early at any position', async () => {
    const log = buildLog({ receipts: 40, checkpoints: [10, 25, 40] })
    const bytes = Buffer.from(`${log.lines.join('\n')}\n`)
    const lastCheckpoint = bytes.lastIndexOf('{"_checkpoint"')
    await fc.assert(
      fc.asyncProperty(fc.integer({ min: 1, max: bytes.length - 1 }), async (end) => {
        const report = await verifyBytes(bytes.subarray(0, end), trust(log))
        if (end === lastCheckpoint) expect(report).toMatchObject({ outcome: 'incomplete', intact: 25 })
        else expect(report).toMatchObject({ outcome: 'tampered', finding: { problem: 'truncated' } })
      }),
      { numRuns: 200 },
    )
  })
})

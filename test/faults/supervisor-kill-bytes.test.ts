/** Both ends of a copy generate the same bytes, and its gate never delays a waiter for a byte before its mark. */
import { execFileSync } from 'node:child_process'
import { createHash } from 'node:crypto'
import { createReadStream, mkdtempSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import {
  ByteGate,
  checkProgram,
  createGatedFile,
  ExpectedBytes,
  keystreamProgram,
  sha256Of,
} from './supervisor-kill-bytes.ts'

const MIB = 1024 * 1024

describe('a gate', () => {
  it('reports every byte before its mark, wherever chunks begin and end', async () => {
    const whole = fc.record({
      bytes: fc.integer({ min: 1, max: 3 * MIB }),
      offset: fc.double({ min: 0, max: 1, noNaN: true }),
      marks: fc.array(fc.double({ min: 0, max: 1, noNaN: true }), { minLength: 1, maxLength: 5 }),
    })
    await fc.assert(
      fc.asyncProperty(whole, async ({ bytes, offset, marks }) => {
        const gate = new ByteGate()
        const open = createGatedFile('bytes', bytes, gate)
        const from = Math.floor(offset * (bytes - 1))
        // The first, broken stream still waits when the next one continues.
        const [broken, next] = [open(0), open(from)]
        broken.on('error', () => {}).resume()
        const read = (async () => {
          let at = from
          for await (const piece of next) at += (piece as Buffer).length
          return at
        })()
        for (const mark of [...marks].sort((one, other) => one - other)) {
          const last = Math.floor(mark * bytes)
          gate.allow(last)
          await gate.waitForBytes(last)
        }
        gate.allow(bytes)
        expect(await read).toBe(bytes)
        broken.destroy()
      }),
      { numRuns: 50 },
    )
  })

  it('passes the same bytes that the other end expects', async () => {
    const gate = new ByteGate()
    gate.allow(MIB)
    const hash = createHash('sha256')
    for await (const piece of createGatedFile('same', MIB, gate)(0)) hash.update(piece as Buffer)
    expect(hash.digest('hex')).toBe(sha256Of('same', MIB))
  })
})

describe('the programs that run in a sandbox', () => {
  it('agree with the test about every byte, and report the first wrong one', async () => {
    const folder = mkdtempSync(join(tmpdir(), 'craik-bytes-'))
    try {
      const file = join(folder, 'file')
      const bytes = 2 * MIB + 12_345
      const node = (program: string) =>
        execFileSync(process.execPath, ['-e', program], { encoding: 'utf8', cwd: folder })
      node(keystreamProgram('inside', bytes, 'file'))
      const expected = new ExpectedBytes('inside')
      for await (const chunk of createReadStream(file)) expected.take(chunk as Buffer)
      expect(expected.at).toBe(bytes)
      const check = () => node(checkProgram('inside', bytes, 'file'))
      expect(check()).toBe('whole')
      const whole = readFileSync(file)
      const at = MIB + 7
      writeFileSync(
        file,
        Buffer.concat([whole.subarray(0, at), Buffer.of(~whole[at]!), whole.subarray(at + 1)]),
      )
      expect(check()).toBe(`byte ${at} is another one`)
      writeFileSync(file, whole.subarray(0, -1))
      expect(check()).toBe(`${bytes - 1} bytes`)
    } finally {
      rmSync(folder, { recursive: true })
    }
  })
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { CraikError } from '../errors.ts'
import { newId, parseReference } from './ids.ts'

describe('ids', () => {
  it('show what they name, and sort by time', () => {
    const [early, late] = [newId('rcpt', 1_700_000_000_000), newId('rcpt', 1_700_000_000_001)]
    expect(early).toMatch(/^rcpt_[0-9A-HJKMNP-TV-Z]{26}$/)
    expect(early < late).toBe(true)
  })

  it('keep all 80 random bits', () => {
    fc.assert(
      fc.property(fc.uint8Array({ minLength: 10, maxLength: 10 }), (bytes) => {
        const rest = newId('x', 0, Buffer.from(bytes)).slice(12)
        const value = [...rest].reduce(
          (n, c) => n * 32n + BigInt('0123456789ABCDEFGHJKMNPQRSTVWXYZ'.indexOf(c)),
          0n,
        )
        expect(value.toString(16).padStart(20, '0')).toBe(Buffer.from(bytes).toString('hex'))
      }),
    )
  })

  it.each(['', ' ', 'a b', '../x\n', 'x'.repeat(201), '-rf', 'a\0b', '$(id)'])(
    'refuses %j as a reference',
    (text) => {
      expect(() => parseReference(text, 'receipt')).toThrow(CraikError)
    },
  )

  it('never repeats a long wrong value in its message', () => {
    expect(() => parseReference(`x ${'y'.repeat(5000)}`, 'receipt')).toThrow(/^.{1,120}$/s)
  })
})

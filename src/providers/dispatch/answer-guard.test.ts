import fc from 'fast-check'
import { expect, it } from 'vitest'
import { AnswerGuard } from './answer-guard.ts'

const KEY = '3f9a1c7be2d84056a1b2c3d4e5f60718'

function pass(guard: AnswerGuard, pieces: readonly string[]): string {
  return pieces.map((piece) => guard.text(piece)).join('') + guard.rest()
}

function cut(text: string, sizes: readonly number[]): string[] {
  const pieces: string[] = []
  let at = 0
  for (let i = 0; at < text.length; i++) {
    const size = sizes[i % sizes.length]!
    pieces.push(text.slice(at, at + size))
    at += size
  }
  return pieces
}

const sizes = fc.array(fc.integer({ min: 1, max: 40 }), { minLength: 1 })

it('withholds an answer with the key in it, however it is cut', () => {
  fc.assert(
    fc.property(fc.string(), fc.string(), sizes, (before, after, lengths) => {
      let passed = ''
      const guard = new AnswerGuard(Buffer.from(KEY))
      expect(() => {
        for (const piece of cut(before + KEY + after, lengths)) passed += guard.text(piece)
        passed += guard.rest()
      }).toThrow(/repeats the credential/)
      expect(passed).not.toContain(KEY.slice(0, 16))
    }),
  )
})

it('changes nothing in an answer without it', () => {
  fc.assert(
    fc.property(fc.string(), sizes, (text, lengths) => {
      expect(pass(new AnswerGuard(Buffer.from(KEY)), cut(text, lengths))).toBe(text)
      expect(pass(new AnswerGuard(undefined), cut(text, lengths))).toBe(text)
    }),
  )
})

it('passes whole characters on, also where it holds the rest back', () => {
  fc.assert(
    fc.property(fc.string({ unit: 'grapheme', maxLength: 60 }), (text) => {
      const guard = new AnswerGuard(Buffer.from(KEY))
      const passed = [...[...text].map((character) => guard.text(character)), guard.rest()]
      expect(passed.every((piece) => piece.isWellFormed())).toBe(true)
      expect(passed.join('')).toBe(text)
    }),
  )
})

it.each([
  ['upper case', KEY.toUpperCase()],
  ['base64', Buffer.from(KEY).toString('base64')],
  ['hex', Buffer.from(KEY).toString('hex')],
  ['half of it', KEY.slice(0, 16)],
])('knows the key in %s', (_, spelling) => {
  expect(() => new AnswerGuard(Buffer.from(KEY)).check(`see ${spelling}!`)).toThrow()
})

it('lets an answer speak about what keys of a kind have in common', () => {
  const guard = new AnswerGuard(Buffer.from('sk-ant-api03-Zx8Qv2Lm5Tn7'))
  expect(pass(guard, ['keys begin with sk-ant-api03-'])).toBe('keys begin with sk-ant-api03-')
})

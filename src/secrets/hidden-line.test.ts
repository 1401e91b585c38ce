import fc from 'fast-check'
import { expect, it } from 'vitest'
import { HiddenLine, type LineState } from './hidden-line.ts'

function type(...chunks: (string | Uint8Array)[]): { state: LineState; text: string } {
  const line = new HiddenLine(1000)
  let state: LineState = 'typing'
  for (const chunk of chunks) {
    if (state !== 'typing') break
    state = line.feed(typeof chunk === 'string' ? Buffer.from(chunk) : chunk)
  }
  return { state, text: line.finish().toString() }
}

it('reads what is typed until Enter', () => {
  expect(type('s', 'e', 'cret', '\r')).toEqual({ state: 'entered', text: 'secret' })
  expect(type('secret\n')).toEqual({ state: 'entered', text: 'secret' })
})

it('removes one whole character with backspace, and everything with Ctrl-U', () => {
  expect(type('añ\x7f\x7f\x7fb€\x08c\r').text).toBe('bc')
  expect(type('wrong\x15right\r').text).toBe('right')
})

it('ignores arrow keys and other control characters', () => {
  expect(type('a\x1b[D\x1b[1;5Cb\x1bOPc\x1b[3~\x00\x1ad\r').text).toBe('abcd')
})

it('ends on Ctrl-C, and on Ctrl-D when nothing was typed', () => {
  expect(type('abc\x03').state).toBe('interrupted')
  expect(type('\x04').state).toBe('interrupted')
  expect(type('\x1b', '\x03').state).toBe('interrupted')
  expect(type('abc\x04')).toEqual({ state: 'entered', text: 'abc' })
})

it('keeps the line breaks of a marked paste', () => {
  expect(type('\x1b[200~one\rtwo\r\nthree\n\x1b[201~', '\r')).toEqual({
    state: 'entered',
    text: 'one\ntwo\nthree\n',
  })
})

it('refuses an unmarked paste of several lines instead of leaving the rest to the shell', () => {
  expect(type('one\rtwo\r').state).toBe('several_lines')
  expect(type('one\r\n')).toEqual({ state: 'entered', text: 'one' })
})

it('refuses more than its limit', () => {
  expect(type('x'.repeat(1001)).state).toBe('too_long')
})

it('does not depend on how the bytes of a paste are split into chunks', () => {
  const text = fc.string({ unit: 'grapheme', maxLength: 40 }).filter((value) => !/[\p{Cc}]/u.test(value))
  fc.assert(
    fc.property(text, fc.array(fc.nat(200), { maxLength: 10 }), (value, cuts) => {
      const bytes = Buffer.from(`\x1b[200~${value}\x1b[201~\r`)
      const ends = [...cuts.map((cut) => cut % bytes.length), bytes.length].sort((a, b) => a - b)
      const chunks = ends.map((end, i) => bytes.subarray(ends[i - 1] ?? 0, end))
      expect(type(...chunks)).toEqual({ state: 'entered', text: value })
    }),
  )
})

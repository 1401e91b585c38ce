import { expect, it } from 'vitest'
import { parseSignal } from './inspect.ts'

it('reads a signal by name, in any case, with or without SIG, and by number', () => {
  for (const text of ['TERM', 'SIGTERM', 'term', '15']) expect(parseSignal(text)).toBe('SIGTERM')
  expect(parseSignal('9')).toBe('SIGKILL')
})

it.each(['', 'NONSENSE', '0', '99', '-9', 'SIG', '15; rm'])('refuses %j', (text) => {
  expect(() => parseSignal(text)).toThrow(expect.objectContaining({ code: 'usage' }))
})

import { expect, it } from 'vitest'
import { parseSignalName } from './inspect.ts'

it('reads a signal by name, in any case, with or without SIG, and by number', () => {
  for (const text of ['TERM', 'SIGTERM', 'term', '15']) expect(parseSignalName(text)).toBe('SIGTERM')
  expect(parseSignalName('9')).toBe('SIGKILL')
})

it.each(['', 'NONSENSE', '0', '99', '-9', 'SIG', '15; rm'])('refuses %j', (text) => {
  expect(() => parseSignalName(text)).toThrow(expect.objectContaining({ code: 'usage' }))
})

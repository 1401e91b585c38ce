import { expect, it } from 'vitest'
import { fitted } from './progress.ts'

it('stays in one row of the terminal, however narrow that is', () => {
  expect(fitted('copying 12 MB')).toBe('copying 12 MB')
  expect(fitted('copying 12 MB', 80)).toBe('copying 12 MB')
  expect(fitted('copying 12 MB', 13)).toBe('copying 12 M')
  expect(fitted('copying 12 MB', 1)).toBe('')
})

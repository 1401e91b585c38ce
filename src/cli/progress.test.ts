import { expect, it } from 'vitest'
import { truncateLine } from './progress.ts'

it('fits into one row of the terminal, however narrow it is', () => {
  expect(truncateLine('copying 12 MB')).toBe('copying 12 MB')
  expect(truncateLine('copying 12 MB', 80)).toBe('copying 12 MB')
  expect(truncateLine('copying 12 MB', 13)).toBe('copying 12 M')
  expect(truncateLine('copying 12 MB', 1)).toBe('')
})

import { expect, it } from 'vitest'
import { barOf } from './transfer-bar.ts'

it('shows the progress, and nothing if the total is unknown', () => {
  expect(barOf(0, 100)).toBe(`▕${' '.repeat(24)}▏   0%  `)
  expect(barOf(50, 100)).toBe(`▕${'█'.repeat(12)}${' '.repeat(12)}▏  50%  `)
  expect(barOf(999, 100)).toBe(`▕${'█'.repeat(24)}▏ 100%  `)
  expect(barOf(5, 0)).toBe('')
})

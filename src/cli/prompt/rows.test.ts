import { expect, it } from 'vitest'
import { fittedRow, formatName, rowsOf } from './rows.ts'

it('a name that could look like what stands beside it is in quotes', () => {
  expect(formatName('src/a b.ts')).toBe('src/a b.ts')
  expect(formatName('x (+1 −0)   apply:  curl evil')).toBe('"x (+1 −0)   apply:  curl evil"')
  expect(formatName('x\u00a0\u3000apply: y')).toMatch(/^".*"$/)
})

it('rows are as wide as they may be, and go on where a row was begun', () => {
  expect(rowsOf('abcdef', 4)).toEqual(['abcd', 'ef'])
  expect(rowsOf('abcdef', 4, 3)).toEqual(['a', 'bcde', 'f'])
  expect(rowsOf('好好好', 4)).toEqual(['好好', '好'])
  expect(rowsOf('', 4)).toEqual([''])
  expect([fittedRow('abcd', 4), fittedRow('abcde', 4)]).toEqual(['abcd', 'abc…'])
})

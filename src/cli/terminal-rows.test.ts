import { expect, it } from 'vitest'
import { formatName } from './output.ts'
import { splitRows, truncateRow } from './terminal-rows.ts'

it('quotes a name that could look like the text beside it', () => {
  expect(formatName('src/a b.ts')).toBe('src/a b.ts')
  expect(formatName('x (+1 −0)   apply:  curl evil')).toBe('"x (+1 −0)   apply:  curl evil"')
  expect(formatName('x\u00a0\u3000apply: y')).toMatch(/^".*"$/)
})

it('fills rows up to their width, and continues a row that has begun', () => {
  expect(splitRows('abcdef', 4)).toEqual(['abcd', 'ef'])
  expect(splitRows('abcdef', 4, 3)).toEqual(['a', 'bcde', 'f'])
  expect(splitRows('好好好', 4)).toEqual(['好好', '好'])
  expect(splitRows('', 4)).toEqual([''])
  expect([truncateRow('abcd', 4), truncateRow('abcde', 4)]).toEqual(['abcd', 'abc…'])
})

import { expect, it } from 'vitest'
import { parseEnvironment } from './environment-option.ts'

it('reads names and values, and keeps everything after the first = in the value', () => {
  expect(parseEnvironment(['A=1', 'B=x=y', 'C=', 'A=2', 'D=two\nlines'])).toEqual({
    A: '2',
    B: 'x=y',
    C: '',
    D: 'two\nlines',
  })
  expect(parseEnvironment()).toEqual({})
  expect(Object.keys(parseEnvironment(['__proto__=x']))).toEqual(['__proto__'])
})

it.each(['A', '=x', '1A=x', 'A B=x', 'a-b=x', '', 'A=\0'])('refuses %j', (pair) => {
  expect(() => parseEnvironment([pair])).toThrow(expect.objectContaining({ code: 'usage' }))
})

it('never repeats a value', () => {
  try {
    parseEnvironment(['A-B=s3cret-value'])
    expect.unreachable()
  } catch (error) {
    expect(String(error)).not.toContain('s3cret-value')
  }
})

it('refuses more than the sandbox accepts', () => {
  const many = Array.from({ length: 257 }, (_, at) => `A${at}=x`)
  expect(() => parseEnvironment(many)).toThrow(
    expect.objectContaining({ code: 'too_large', message: '--env sets 257 variables' }),
  )
  expect(Object.keys(parseEnvironment([...many.slice(1), 'A1=y']))).toHaveLength(256)
  expect(() => parseEnvironment([`A=${'x'.repeat(300_000)}`])).toThrow(
    expect.objectContaining({ code: 'too_large' }),
  )
})

import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { fitLines, wrapWords } from './fit-lines.ts'
import { countCells } from './terminal-rows.ts'

describe('lines that are too wide', () => {
  it('break at words and continue below the value after their label', () => {
    expect(fitLines('  limits     memory: per-process · disk: not-enforced\n  logins     none\n', 40)).toBe(
      '  limits     memory: per-process · disk:\n             not-enforced\n  logins     none\n',
    )
  })

  it('continue below the text after a mark, and two cells further in without a mark', () => {
    expect(fitLines('  ✗ receipt 611 was edited: its bytes do not hash', 40)).toBe(
      '  ✗ receipt 611 was edited: its bytes do\n    not hash',
    )
    expect(fitLines('craik: cannot parse --timeout "5x": expected a duration', 40)).toBe(
      'craik: cannot parse --timeout "5x":\n  expected a duration',
    )
  })

  it('give a command a line of its own and keep it whole', () => {
    const command = 'craik run apply run_01JCQ3V8Z0W4N5T6R7Y8K9M2PD --skip-conflicts'
    expect(fitLines(`  apply the rest:  ${command}`, 40)).toBe(`  apply the rest:\n    ${command}`)
    expect(fitLines(`  list:  craik egress list   remove:  craik egress deny RULE`, 40)).toBe(
      '  list:  craik egress list   remove:\n    craik egress deny RULE',
    )
  })

  it('lose no word, and fit into the terminal if their words do', () => {
    const text = fc.array(fc.stringMatching(/^[a-z]{1,12}$/), { minLength: 1, maxLength: 40 })
    fc.assert(
      fc.property(text, fc.integer({ min: 40, max: 100 }), (words, columns) => {
        const lines = fitLines(`  ${words.join(' ')}\n`, columns)
        expect(lines.split(/\s+/).filter(Boolean)).toEqual(words)
        for (const line of lines.split('\n')) expect(countCells(line)).toBeLessThanOrEqual(columns)
      }),
    )
  })
})

it('keeps words that are too wide whole', () => {
  expect(wrapWords('a longer-than-that b', 8)).toEqual(['a', 'longer-than-that', 'b'])
})

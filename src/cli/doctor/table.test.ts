import fc from 'fast-check'
import { expect, it } from 'vitest'
import type { HealthRow } from './row.ts'
import { describeRows } from './table.ts'

const ROWS: readonly HealthRow[] = [
  { name: 'node', version: '24.1', state: 'ok', detail: 'runtime from npm' },
  {
    name: 'docker',
    state: 'none',
    detail: 'no engine on this machine',
    fix: 'sudo apt-get install docker.io',
  },
  {
    name: 'kvm',
    state: 'warn',
    detail: 'runs no guest, so that microVMs will be emulated here',
    fix: 'none',
  },
]

it('prints one line for each row in a pipe, with the fix at its end', () => {
  expect(describeRows(ROWS)).toBe(
    [
      '  ok    node 24.1  runtime from npm',
      '  off   docker     no engine on this machine                              sudo apt-get install docker.io',
      '  warn  kvm        runs no guest, so that microVMs will be emulated here  none',
      '',
    ].join('\n'),
  )
})

it('wraps below the detail in a narrow terminal', () => {
  expect(describeRows(ROWS, 60)).toBe(
    [
      '  ok    node 24.1  runtime from npm',
      '  off   docker     no engine on this machine',
      '                   sudo apt-get install docker.io',
      '  warn  kvm        runs no guest, so that microVMs will be',
      '                   emulated here',
      '                   none',
      '',
    ].join('\n'),
  )
})

it('loses no word and never breaks a command', () => {
  const row = fc.record({
    name: fc.stringMatching(/^[a-z]{1,12}$/),
    state: fc.constantFrom('ok', 'warn', 'none'),
    detail: fc.stringMatching(/^[a-z]{1,20}( [a-z]{1,20}){0,12}$/),
    fix: fc.stringMatching(/^[a-z]{1,20}( [a-z]{1,20}){0,6}$/),
  })
  fc.assert(
    fc.property(
      fc.array(row, { minLength: 1, maxLength: 8 }),
      fc.integer({ min: 1, max: 200 }),
      (rows, width) => {
        const text = describeRows(rows, width)
        const words = (of: string) => of.split(/\s+/).filter(Boolean)
        expect(words(text)).toEqual(
          rows.flatMap(({ state, name, detail, fix }) =>
            words(`${state === 'none' ? 'off' : state} ${name} ${detail} ${fix}`),
          ),
        )
        for (const { fix } of rows) expect(text).toContain(`${fix}\n`)
      },
    ),
  )
})

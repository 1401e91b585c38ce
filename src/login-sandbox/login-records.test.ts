/** Tests the records of login sandboxes. */
import { existsSync, mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { parseState } from './keep/sandbox-state.ts'
import { LoginRecords } from './login-records.ts'

let home: string
let folder: string
beforeEach(() => {
  home = mkdtempSync(join(tmpdir(), 'craik-records-'))
  folder = join(home, 'login-sandboxes')
})
afterEach(() => rmSync(home, { recursive: true }))

const STATE = parseState(Buffer.from('#npm\0a=1\0#end\0'), Date.UTC(2026, 10, 15))
const facts = (login: string, entryTimestamp = '2026-11-15T09-12-44Z') => ({
  login,
  profile: null,
  sandboxId: 'sbx_01JCQZX0000000000000000000',
  inbox: '/home/octo/inbox',
  workspace: null,
  author: null,
  entryTimestamp,
})

it('stores one record for each login with its state at entry, readable only by the owner', () => {
  const records = new LoginRecords(folder)
  const record = records.enter(facts('octo'), STATE)
  records.enter(facts('octo-work', '2026-11-15T09-12-50Z'), undefined)
  expect(records.read('octo')).toEqual(record)
  expect(records.list().map(({ login }) => login)).toEqual(['octo', 'octo-work'])
  expect(records.entryOf(record)).toEqual(STATE)
  expect(records.entryOf(records.read('octo-work')!)).toBeUndefined()
  for (const name of readdirSync(folder)) expect(statSync(join(folder, name)).mode & 0o777).toBe(0o600)
})

it('gives two sandboxes that are entered in the same second separate folders in the inbox', () => {
  const records = new LoginRecords(folder)
  const at = (login: string, more: object = {}) =>
    records.enter({ ...facts(login, '2026-11-15T23-59-59Z'), ...more }, STATE).entryTimestamp
  expect([at('one'), at('two'), at('three')]).toEqual([
    '2026-11-15T23-59-59Z',
    '2026-11-16T00-00-00Z',
    '2026-11-16T00-00-01Z',
  ])
  expect([at('one'), at('four', { inbox: '/elsewhere' })]).toEqual([
    '2026-11-15T23-59-59Z',
    '2026-11-15T23-59-59Z',
  ])
})

it('replaces the earlier state of a login, and keeps the records of other logins', () => {
  const records = new LoginRecords(folder)
  records.enter(facts('octo'), STATE)
  records.enter(facts('octo-work', '2026-11-15T09-12-50Z'), STATE)
  const later = records.enter(facts('octo', '2026-11-16T09-12-44Z'), STATE)
  expect(records.entryOf(later)).toEqual(STATE)
  expect(readdirSync(folder)).toHaveLength(4)
  records.remove('octo')
  records.remove('octo')
  expect(records.read('octo')).toBeUndefined()
  expect(readdirSync(folder).sort()).toEqual(['octo-work.entry-2026-11-15T09-12-50Z.json', 'octo-work.json'])
})

it('finds no records before the first one, and creates no files when it reads', () => {
  const records = new LoginRecords(folder)
  expect([records.list(), records.read('octo')]).toEqual([[], undefined])
  records.remove('octo')
  expect(existsSync(folder)).toBe(false)
})

it('reports the records that it cannot read, and still lists the others', () => {
  const records = new LoginRecords(folder)
  records.enter(facts('octo'), STATE)
  records.enter(facts('other', '2026-11-15T09-12-50Z'), STATE)
  writeFileSync(join(folder, 'octo.json'), '{"version":1')
  writeFileSync(join(folder, 'other.entry-2026-11-15T09-12-50Z.json'), 'no state')
  expect(() => records.read('octo')).toThrow('cannot read the record')
  const unreadable: string[] = []
  const [other] = records.list((login) => unreadable.push(login))
  expect([other?.login, unreadable]).toEqual(['other', ['octo']])
  expect(records.entryOf(other!)).toBeUndefined()
})

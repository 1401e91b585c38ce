import { mkdtempSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import type { DatabaseSync } from 'node:sqlite'
import fc from 'fast-check'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { BudgetId, EnvelopeId, GrantId } from '../../lib/ids.ts'
import { homeAt } from '../home.ts'
import type { BudgetRow, QuotaRow } from '../ledger-tables.ts'
import type { GrantRow, Tables } from '../store.ts'
import { type CachedRows, cacheRows } from './cached-rows.ts'
import { openDatabase } from './database.ts'
import { createTables } from './tables.ts'

const GRANT: GrantRow = {
  id: 'grant_1' as GrantId,
  capability: 'model.chat',
  subject: 'me',
  document: '{}',
  usesLeft: 5,
  expiresAtMs: null,
  revokedAtMs: null,
  createdAtMs: 1,
}
const BUDGET: BudgetRow = {
  id: 'budget_1' as BudgetId,
  scopeKind: 'total',
  scopeRef: null,
  period: 'day',
  limitNanoUsd: 100,
  limitTokens: null,
  allowUnpriced: false,
  createdAtMs: 1,
  updatedAtMs: 1,
  removedAtMs: null,
}
const QUOTA: QuotaRow = {
  id: 'quota_1',
  scopeKind: 'provider',
  scopeRef: 'p',
  requestsPerMinute: 5,
  tokensPerMinute: null,
  concurrent: null,
  updatedAtMs: 1,
}
const SCOPES = { provider: 'p', session: undefined, sandbox: undefined, operator: 'me' }

let folder: string
let ours: DatabaseSync
let theirs: DatabaseSync
let rows: CachedRows

beforeEach(async () => {
  folder = mkdtempSync(join(tmpdir(), 'craik-rows-'))
  const home = homeAt(join(folder, 'home'))
  ours = await openDatabase(home)
  theirs = await openDatabase(home)
  rows = cacheRows(ours, createTables(ours))
  await inside(async ({ grants, budgets, quotas, envelopes, documents }) => {
    await grants.insert(GRANT)
    await budgets.put(BUDGET)
    await quotas.put(QUOTA)
    await envelopes.insert({ id: 'policy_1' as EnvelopeId, document: '{"a":1}', createdAtMs: 1 })
    await documents.put({ digest: 'sha256:x', mediaType: 'text/cedar', text: 'permit' })
  })
  await all()
})

afterEach(() => {
  ours.close()
  theirs.close()
  rmSync(folder, { recursive: true })
})

async function inside<T>(work: (tables: Tables) => Promise<T>): Promise<T> {
  ours.exec('BEGIN IMMEDIATE')
  try {
    rows.onBegin()
    const result = await work(rows.tables)
    ours.exec('COMMIT')
    return result
  } catch (error) {
    ours.exec('ROLLBACK')
    rows.onRollback()
    throw error
  }
}

const read = async ({ grants, budgets, quotas, envelopes, documents }: Tables) => ({
  grant: await grants.get('grant_1'),
  budgets: await budgets.applying(SCOPES),
  quotas: await quotas.applying('p', undefined),
  envelope: await envelopes.get('policy_1'),
  document: await documents.get('sha256:x'),
})
const all = () => inside(read)

it('returns the same frozen rows while there is no write', async () => {
  const first = await all()
  const again = await all()
  for (const name of ['grant', 'budgets', 'quotas', 'envelope', 'document'] as const) {
    expect(again[name]).toBe(first[name])
    expect(Object.isFrozen(again[name])).toBe(true)
  }
  expect(first.budgets.every(Object.isFrozen)).toBe(true)
})

it.each([
  ['revokes a grant', 'UPDATE grants SET revoked_at_ms = 9', { grant: { revokedAtMs: 9 } }],
  ['uses a grant up', 'UPDATE grants SET uses_left = 0', { grant: { usesLeft: 0 } }],
  ['removes a grant', 'DELETE FROM grants', { grant: undefined }],
  ['lowers a budget', 'UPDATE budgets SET limit_nano_usd = 1', { budgets: [{ limitNanoUsd: 1 }] }],
  ['removes a budget', 'UPDATE budgets SET removed_at_ms = 1', { budgets: [] }],
  ['lowers a quota', 'UPDATE quotas SET requests_per_minute = 0', { quotas: [{ requestsPerMinute: 0 }] }],
  ['removes a quota', 'DELETE FROM quotas', { quotas: [] }],
  ['edits an envelope', `UPDATE envelopes SET document = '{}'`, { envelope: { document: '{}' } }],
  ['edits a policy', `UPDATE documents SET text = 'forbid'`, { document: { text: 'forbid' } }],
])('sees in its next transaction that another connection %s', async (_, sql, expected) => {
  theirs.exec(sql)
  expect(await all()).toMatchObject(expected)
})

it('keeps one snapshot during a transaction, and afterwards sees newer commits', async () => {
  const during = await inside(async (tables) => {
    const before = await read(tables)
    theirs.exec('PRAGMA busy_timeout = 0')
    expect(() => theirs.exec('UPDATE grants SET revoked_at_ms = 9')).toThrow(/locked/)
    return [before, await read(tables)]
  })
  expect(during[0]).toEqual(during[1])
  theirs.exec('UPDATE grants SET revoked_at_ms = 9')
  expect((await all()).grant?.revokedAtMs).toBe(9)
})

it('sees its own writes at once, and sees that they were rolled back', async () => {
  const doomed = inside(async (tables) => {
    await tables.grants.consume('grant_1')
    await tables.budgets.put({ ...BUDGET, limitNanoUsd: 7 })
    await tables.quotas.remove('quota_1')
    expect(await read(tables)).toMatchObject({
      grant: { usesLeft: 4 },
      budgets: [{ limitNanoUsd: 7 }],
      quotas: [],
    })
    throw new Error('undo it')
  })
  await expect(doomed).rejects.toThrow('undo it')
  expect(await all()).toMatchObject({ grant: GRANT, budgets: [BUDGET], quotas: [QUOTA] })
})

it('sees a write that overlaps a read of the same procedure', async () => {
  await inside(async ({ grants }) => {
    rows.onRollback()
    await Promise.all([grants.get('grant_1'), grants.revoke('grant_1', 9)])
    expect((await grants.get('grant_1'))?.revokedAtMs).toBe(9)
  })
})

it('finds a row that did not exist before', async () => {
  expect(await inside(({ grants }) => grants.get('grant_2'))).toBeUndefined()
  theirs.exec(
    `INSERT INTO grants SELECT 'grant_2', capability, subject, document, 1, NULL, NULL, 2 FROM grants`,
  )
  expect(await inside(({ grants }) => grants.get('grant_2'))).toMatchObject({ id: 'grant_2', usesLeft: 1 })
})

it('answers like the tables themselves, whatever both connections write', async () => {
  const theirTables = createTables(theirs)
  const write = fc.record({
    by: fc.constantFrom('us', 'us, undone', 'them'),
    what: fc.constantFrom('consume', 'revoke', 'budget', 'quota', 'no quota', 'nothing'),
    n: fc.nat({ max: 5 }),
  })
  const apply = async ({ grants, budgets, quotas }: Tables, what: string, n: number) => {
    if (what === 'consume') await grants.consume('grant_1')
    if (what === 'revoke') await grants.revoke('grant_1', n)
    if (what === 'budget') await budgets.put({ ...BUDGET, limitNanoUsd: n, removedAtMs: n === 5 ? 1 : null })
    if (what === 'quota') await quotas.put({ ...QUOTA, requestsPerMinute: n })
    if (what === 'no quota') await quotas.remove('quota_1')
  }
  await fc.assert(
    fc.asyncProperty(fc.array(write, { maxLength: 12 }), async (writes) => {
      for (const { by, what, n } of writes) {
        if (by === 'them') await apply(theirTables, what, n)
        else {
          const ending = inside(async (tables) => {
            await apply(tables, what, n)
            if (by === 'us, undone') throw new Error('undo it')
          })
          if (by === 'us') await ending
          else await expect(ending).rejects.toThrow('undo it')
        }
        expect(await all()).toEqual(await read(theirTables))
      }
    }),
    { numRuns: 40 },
  )
})

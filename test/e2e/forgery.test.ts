/**
 * An intruder who can write to the database, but has no keys, tries to get a forged log signed or a true log hidden.
 */
import { createHash } from 'node:crypto'
import { writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { DatabaseSync } from 'node:sqlite'
import { describe, expect, it } from 'vitest'
import { homeAt } from '../../src/store/home.ts'
import { TestHome } from '../craik.ts'
import { draft, openLog } from './live-log.ts'

describe('an intruder who can write to the database', () => {
  it.each([
    [
      'forgets the checkpoints after the change',
      (db: DatabaseSync) => db.exec('DELETE FROM checkpoints WHERE size > 2'),
    ],
    ['forgets all checkpoints', (db: DatabaseSync) => db.exec('DELETE FROM checkpoints')],
    ['leaves the checkpoints', () => {}],
  ])('relinks the log after a change, %s, and gets no signature', async (_, forget) => {
    using home = await homeWithFailure()
    attack(home, (database) => {
      relink(database)
      forget(database)
    })
    const before = await exportLog(home)
    expect(await home.run(['shell', 'touch ran'])).toMatchObject({ code: 1, stdout: '' })
    expect(await exportLog(home)).toBe(before)
    expect(await home.run(['receipts', 'verify'])).toMatchObject({ code: 1 })
  })

  it('gets no signature from a process that was already running', async () => {
    using home = await homeWithFailure()
    const live = await openLog(home.home)
    await live.log.append(draft({ target: 'before' }))
    attack(home, (database) => {
      relink(database)
      database.exec('DELETE FROM checkpoints')
    })
    // The log may refuse the append at once. It must refuse to sign.
    await live.log.append(draft({ target: 'after' })).catch(() => {})
    await expect(live.store.close()).rejects.toMatchObject({ code: 'tampered' })
    using database = open(home)
    expect(database.prepare('SELECT count(*) AS n FROM checkpoints').get()).toEqual({ n: 0 })
  })

  it.each([
    ['replacing', `UPDATE log_keys SET vkey = '${forgedKey()}'`],
    [
      'putting another before',
      `INSERT INTO log_keys VALUES (-1, '0123456789abcdef', 'craik.local/x', '${forgedKey()}')`,
    ],
  ])('cannot make craik print another public key by %s the recorded one', async (_, sql) => {
    using home = await homeWithFailure()
    const { stdout: truth } = await home.run(['receipts', 'key'])
    attack(home, (database) => database.exec(sql))
    const { stdout } = await home.run(['receipts', 'key'])
    expect(stdout === truth || stdout === '').toBe(true)
  })

  it('is detected when receipts can no longer be found by their links', async () => {
    using home = new TestHome()
    {
      await using live = await openLog(home.home)
      await live.log.append(draft({ links: { task_id: 'task_a' } }))
    }
    expect(await home.json(['receipts', 'list', '--task', 'task_a'])).toHaveLength(1)
    attack(home, (database) => database.exec('DELETE FROM receipt_links'))
    const { code, stdout } = await home.run(['receipts', 'verify'])
    expect([code, JSON.parse(stdout).finding.seq]).toEqual([1, 0])
  })

  it('is detected when the record of the keys is missing', async () => {
    using home = await homeWithFailure()
    attack(home, (database) => database.exec('DELETE FROM log_keys'))
    for (const args of [
      ['receipts', 'verify'],
      ['shell', 'touch ran'],
    ])
      expect((await home.run(args)).code).toSatisfy((code) => code === 1 || code === 65)
  })
})

async function homeWithFailure(): Promise<TestHome> {
  const home = new TestHome()
  for (const command of ['true', 'false', 'true']) await home.run(['shell', command])
  return home
}

function open(home: TestHome): DatabaseSync {
  return new DatabaseSync(homeAt(home.home).database)
}

function attack(home: TestHome, work: (database: DatabaseSync) => void): void {
  using database = open(home)
  database.exec('DROP TRIGGER IF EXISTS receipts_never_change; DROP TRIGGER IF EXISTS receipts_never_leave')
  work(database)
}

/** Changes the failure to a success, and adapts every hash after it. */
function relink(database: DatabaseSync): void {
  const rows = database.prepare('SELECT seq, line FROM receipts ORDER BY seq').all() as {
    seq: number
    line: string
  }[]
  let previous: string | undefined
  for (const { seq, line } of rows) {
    let forged = line
      .replace('"status":"failed"', '"status":"passed"')
      .replace('"exit_code":1', '"exit_code":0')
    if (previous !== undefined) forged = forged.replace(/"prev":"[0-9a-f]{64}"/, `"prev":"${previous}"`)
    const leaf = createHash('sha256').update(`\0${forged}`).digest()
    previous = leaf.toString('hex')
    const status = forged.includes('"status":"passed"') ? 'passed' : null
    database
      .prepare('UPDATE receipts SET line = ?, leaf = ?, status = coalesce(?, status) WHERE seq = ?')
      .run(forged, leaf, status, seq)
  }
}

async function exportLog(home: TestHome): Promise<string> {
  const { stdout } = await home.run(['receipts', 'export'])
  writeFileSync(join(home.folder, 'export.jsonl'), stdout)
  return stdout
}

function forgedKey(): string {
  return 'craik.local/x+00000000+AQAA'
}

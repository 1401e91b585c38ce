/** A key rotation that is interrupted at any point leaves a log that continues and verifies. */
import { copyFileSync, existsSync, renameSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { rotateKey } from '../../src/receipts/receipt-log.ts'
import { homeAt } from '../../src/store/home.ts'
import { TestHome } from '../craik.ts'
import { copyHome, copyOf, keyOf } from './homes.ts'
import { isGapless, openDatabaseOf, openLog, point, receiptsOf } from './log.ts'
import { startScript } from './scripts.ts'

const APPENDER = new URL('./appender.ts', import.meta.url)

/** Created once and copied: a log before its keys change, and one that has recorded new keys and not yet used them. */
const before = new TestHome()
const recorded = new TestHome()

beforeAll(async () => {
  {
    await using opened = await openLog(before.home)
    for (let n = 0; n < 3; n++) await opened.log.append(point(n))
  }
  copyHome(before, recorded)
  await using opened = await openLog(recorded.home)
  await opened.store.write(rotateKey, 'agent:test')
})

afterAll(() => {
  before[Symbol.dispose]()
  recorded[Symbol.dispose]()
})

describe('a key rotation that was interrupted', () => {
  it('after the log recorded the new keys: they replace the old ones', async () => {
    using home = copyOf(recorded)
    expect(existsSync(nextKeyOf(home))).toBe(true)
    await expectToGoOn(home, 2)
    expect(existsSync(nextKeyOf(home))).toBe(false)
  })

  it('between keeping the old keys and replacing them with the new ones', async () => {
    using home = copyOf(recorded)
    copyFileSync(keyOf(home), retiredKeyPath(home))
    await expectToGoOn(home, 2)
  })

  it('before the log recorded the new keys: the old ones stay, and the next rotation works', async () => {
    using home = copyOf(before)
    copyFileSync(nextKeyOf(recorded), nextKeyOf(home))
    await expectToGoOn(home, 1)
    {
      await using opened = await openLog(home.home)
      await opened.store.write(rotateKey, 'agent:test')
    }
    await expectToGoOn(home, 2)
  })

  it('after a transaction that was not committed replaced the keys', async () => {
    using home = copyOf(before)
    renameSync(keyOf(home), retiredKeyPath(home))
    copyFileSync(nextKeyOf(recorded), keyOf(home))
    await expectToGoOn(home, 1)
    {
      await using opened = await openLog(home.home)
      await opened.store.write(rotateKey, 'agent:test')
    }
    await expectToGoOn(home, 2)
  })

  it('by SIGKILL, many times', async () => {
    using home = copyOf(before)
    const acknowledged: string[] = []
    for (let round = 0; round < 8; round++) {
      const script = startScript(APPENDER, [home.home, 'rotate'], (line) => {
        acknowledged.push(line)
        if (script.lines.length === 1) setTimeout(() => script.process.kill('SIGKILL'), Math.random() * 60)
      })
      const { signal } = await script.closed
      expect(signal, script.stderr).toBe('SIGKILL')
    }
    await expectToGoOn(home)
    const ids = new Set(receiptsOf(home.home).map(({ id }) => id))
    expect(acknowledged.filter((id) => !ids.has(id))).toEqual([])
  })

  it('and whose new keys are lost is refused', async () => {
    using home = copyOf(recorded)
    rmSync(nextKeyOf(home))
    expect(await home.run(['shell', 'true'])).toMatchObject({ code: 68, stdout: '' })
    expect(receiptsOf(home.home)).toHaveLength(4)
  })
})

async function expectToGoOn(home: TestHome, keys?: number): Promise<void> {
  expect(await home.run(['shell', 'true'])).toMatchObject({ code: 0, stderr: '' })
  const verified = await home.run(['receipts', 'verify'])
  expect(verified, verified.stdout).toMatchObject({ code: 0 })
  expect(isGapless(receiptsOf(home.home))).toBe(true)
  if (keys !== undefined) expect(keyIdsOf(home)).toHaveLength(keys)
}

function nextKeyOf(home: TestHome): string {
  return `${keyOf(home)}.next`
}

/** Returns the path to which Craik moves the first key of the log when another one follows it. */
function retiredKeyPath(home: TestHome): string {
  return join(homeAt(home.home).secrets, `log-${keyIdsOf(home)[0]}.key`)
}

function keyIdsOf(home: TestHome): readonly string[] {
  using database = openDatabaseOf(home.home)
  const rows = database.prepare('SELECT kid FROM log_keys ORDER BY from_seq').all()
  return rows.map(({ kid }) => kid as string)
}

/** Many processes, and many stores in one process, use one log at the same time. */
import { readdirSync, readFileSync, statSync } from 'node:fs'
import { describe, expect, it } from 'vitest'
import { homeAt } from '../../src/store/home.ts'
import { TestHome } from '../craik.ts'
import { isGapless, openDatabaseOf, openLog, point, receiptsOf } from './log.ts'
import { lineOf, startScript } from './scripts.ts'

const PROCESSES = 8
const APPENDS = 150
const APPENDER = new URL('./appender.ts', import.meta.url)
const LOCK_HOLDER = new URL('./lock-holder.ts', import.meta.url)

describe('several processes at once', () => {
  it('create one home, one key and one log, and never report a lock', async () => {
    using home = new TestHome()
    const appenders = Array.from({ length: PROCESSES }, () =>
      startScript(APPENDER, [home.home, 'single', String(APPENDS)]),
    )
    await Promise.all(appenders.map((script) => lineOf(script, (line) => line === 'ready')))
    for (const script of appenders) script.process.stdin!.end('go\n')

    let done = false
    const reader = (async () => {
      const runs = []
      while (!done) runs.push(await home.run(['receipts', 'list', '--limit', '20']))
      return runs
    })()
    const ends = await Promise.all(appenders.map((script) => script.closed))
    done = true
    const reads = await reader

    expect(appenders.map(({ stderr }) => stderr)).toEqual(Array(PROCESSES).fill(''))
    expect(ends.map(({ code }) => code)).toEqual(Array(PROCESSES).fill(0))
    expect(reads.filter(({ code, stderr }) => code !== 0 || stderr !== '')).toEqual([])
    expect(reads.length).toBeGreaterThan(0)

    const receipts = receiptsOf(home.home)
    const acknowledged = appenders.flatMap(({ lines }) => lines.filter((line) => line !== 'ready'))
    expect(isGapless(receipts)).toBe(true)
    expect(receipts.map(({ id }) => id).sort()).toEqual(acknowledged.sort())
    expect(receipts).toHaveLength(PROCESSES * APPENDS)
    expect(readdirSync(homeAt(home.home).secrets)).toEqual(['log.key'])
    using database = openDatabaseOf(home.home)
    expect(database.prepare('SELECT origin FROM log_keys').all()).toHaveLength(1)
    const verified = await home.run(['receipts', 'verify'])
    expect(verified, verified.stdout).toMatchObject({ code: 0 })
  })
})

describe('several stores in one process', () => {
  it('append to one log without gaps', async () => {
    using home = new TestHome()
    {
      await using first = await openLog(home.home)
      await using second = await openLog(home.home)
      const refs = await Promise.all(
        Array.from({ length: 600 }, (_, n) => (n % 2 === 0 ? first : second).log.append(point(n))),
      )
      expect(new Set(refs.map(({ seq }) => seq)).size).toBe(600)
    }
    const receipts = receiptsOf(home.home)
    expect(receipts).toHaveLength(600)
    expect(isGapless(receipts)).toBe(true)
    expect(await home.run(['receipts', 'verify'])).toMatchObject({ code: 0 })
  })

  it('see a receipt of the other one as soon as it is acknowledged', async () => {
    using home = new TestHome()
    await using writer = await openLog(home.home)
    await using reader = await openLog(home.home)
    for (let n = 0; n < 20; n++) {
      const { id } = await writer.log.append(point(n))
      expect((await reader.store.read((tables) => tables.receipts.get(id)))?.seq).toBe(n)
    }
  })
})

describe.runIf(process.platform === 'linux')('the lock that marks a database as in use', () => {
  it('is not lost when another thread or store of the same process opens the file', async () => {
    using home = new TestHome()
    await using first = await openLog(home.home)
    await first.store.read((tables) => tables.receipts.last())
    expect(locksOn(homeAt(home.home).database)).toHaveLength(1)
    await first.log.append(point(0))
    expect(locksOn(homeAt(home.home).database)).toHaveLength(1)
    {
      await using second = await openLog(home.home)
      await second.log.append(point(1))
    }
    expect(locksOn(homeAt(home.home).database)).toHaveLength(1)
  })
})

describe('a process that waits for the transaction of another process', () => {
  it('continues with other work, and appends when the transaction is over', async () => {
    using home = new TestHome()
    await using opened = await openLog(home.home)
    await opened.log.append(point(0))
    const holder = startScript(LOCK_HOLDER, [homeAt(home.home).database, '2000'])
    await lineOf(holder, (line) => line === 'held')

    let ticks = 0
    const timer = setInterval(() => ticks++, 20)
    const appended = opened.log.append(point(1))
    const read = await opened.store.read((tables) => tables.receipts.last())
    expect(read?.seq).toBe(0)
    expect(await appended).toMatchObject({ seq: 1 })
    clearInterval(timer)
    expect(ticks).toBeGreaterThanOrEqual(10)
    expect(await holder.closed).toMatchObject({ code: 0 })
  })

  it('opens and reads the store in the meantime, and closes it without a message', async () => {
    using home = new TestHome()
    expect(await home.run(['shell', 'true'])).toMatchObject({ code: 0 })
    const holder = startScript(LOCK_HOLDER, [homeAt(home.home).database, '1500'])
    await lineOf(holder, (line) => line === 'held')
    const [listed, ran] = await Promise.all([home.run(['receipts', 'list']), home.run(['shell', 'true'])])
    expect(listed).toMatchObject({ code: 0, stderr: '' })
    expect(ran).toMatchObject({ code: 0, stderr: '' })
    await holder.closed
  })
})

function locksOn(path: string): readonly string[] {
  const { ino } = statSync(path)
  const locks = readFileSync('/proc/locks', 'utf8').split('\n')
  return locks.filter((line) => line.includes(`:${ino} `) && line.includes(` ${process.pid} `))
}

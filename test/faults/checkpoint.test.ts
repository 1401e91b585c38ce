/** How late checkpoints may be, what closing guarantees, and that calls in one batch fail independently. */
import { DatabaseSync } from 'node:sqlite'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { newId, type ReceiptId } from '../../src/lib/ids.ts'
import { type PreparedReceipt, prepareReceipt } from '../../src/receipts/prepare.ts'
import type { ReceiptRef } from '../../src/receipts/receipt-writer.ts'
import { homeAt } from '../../src/store/home.ts'
import { openDatabase } from '../../src/store/sqlite/database.ts'
import { openSqliteStore } from '../../src/store/sqlite/sqlite-store.ts'
import { procedure } from '../../src/store/store.ts'
import { TestHome } from '../craik.ts'
import { isGapless, openDatabaseOf, openLog, point, receiptsOf } from './log.ts'
import { startScript } from './scripts.ts'

const APPENDER = new URL('./appender.ts', import.meta.url)
const appendReceipt = procedure<PreparedReceipt, ReceiptRef>('receipts.append')

describe('checkpoints', () => {
  it('are created at every multiple of 256 receipts', async () => {
    using home = new TestHome()
    await using opened = await openLog(home.home)
    await Promise.all(Array.from({ length: 1_000 }, (_, n) => opened.log.append(point(n))))
    expect(checkpointSizes(home.home).filter((size) => size % 256 === 0)).toEqual([256, 512, 768])
  })

  it('cover the last receipt of a process that stays alive', async () => {
    using home = new TestHome()
    await using opened = await openLog(home.home)
    for (let n = 0; n < 3; n++) await opened.log.append(point(n))
    await until(() => checkpointSizes(home.home).at(-1) === 3)
    await opened.log.append(point(3))
    await until(() => checkpointSizes(home.home).at(-1) === 4)
  })

  it('are created even when writes never stop', async () => {
    using home = new TestHome()
    await using opened = await openLog(home.home)
    let over = false
    const lanes = Array.from({ length: 4 }, async (_, lane) => {
      for (let n = lane; !over; n += 4) {
        await opened.log.append(point(n))
        await sleep(30)
      }
    })
    await until(() => checkpointSizes(home.home).length >= 2)
    over = true
    await Promise.all(lanes)
    const sizes = checkpointSizes(home.home)
    expect(sizes.some((size) => size % 256 !== 0)).toBe(true)
  })

  it('cover the last receipts of a killed process when the next writer closes', async () => {
    using home = new TestHome()
    const script = startScript(APPENDER, [home.home, 'mixed', '4'], () => {
      if (script.lines.length === 100) script.process.kill('SIGKILL')
    })
    await script.closed
    const left = receiptsOf(home.home).length
    expect(left).toBeGreaterThanOrEqual(100)
    const covered = checkpointSizes(home.home).at(-1) === left
    expect(await home.run(['receipts', 'verify'])).toMatchObject({ code: covered ? 0 : 2 })
    {
      await using opened = await openLog(home.home)
      await opened.log.append(point(0))
    }
    const receipts = receiptsOf(home.home)
    expect(checkpointSizes(home.home).at(-1)).toBe(receipts.length)
    expect(await home.run(['receipts', 'verify'])).toMatchObject({ code: 0 })
  })
})

describe('closing', () => {
  it('finishes the accepted calls, even when it is repeated', async () => {
    using home = new TestHome()
    const { store, log } = await openLog(home.home)
    const accepted = Array.from({ length: 300 }, (_, n) => log.append(point(n)))
    await Promise.all([store.close(), store.close()])
    await store.close()
    expect((await Promise.all(accepted)).length).toBe(300)
    expect(checkpointSizes(home.home)).toEqual([256, 300])
  })

  it('does nothing for a store that never wrote', async () => {
    using home = new TestHome()
    const { store } = await openLog(home.home)
    await store.close()
    await store.close()
    expect(receiptsOf(home.home)).toEqual([])
  })

  it('refuses later calls', async () => {
    using home = new TestHome()
    const { store, log } = await openLog(home.home)
    await log.append(point(0))
    await store.close()
    await expect(log.append(point(1))).rejects.toMatchObject({ name: 'CraikError' })
    await expect(store.read((tables) => tables.receipts.last())).rejects.toMatchObject({ name: 'CraikError' })
    expect(receiptsOf(home.home)).toHaveLength(1)
  })

  it('finishes although the writer thread cannot start', async () => {
    using home = new TestHome()
    const store = await openSqliteStore(homeAt(home.home), new URL('./no-such-writer.ts', import.meta.url))
    await expect(store.write(procedure<undefined, void>('x'), undefined)).rejects.toMatchObject({
      code: 'internal',
    })
    await store.close()
  })
})

describe('calls that share a commit', () => {
  it('fail alone: a reused id is a conflict only for its own call', async () => {
    using home = new TestHome()
    await using opened = await openLog(home.home)
    const taken = (await opened.log.append(point(0))).id
    const results = await Promise.allSettled(
      Array.from({ length: 40 }, (_, n) =>
        n % 4 === 1
          ? opened.store.write(appendReceipt, prepareReceipt(taken, { ...point(n), phase: 'point' }))
          : opened.log.append(point(n)),
      ),
    )
    const failed = results.filter((result) => result.status === 'rejected')
    expect(failed).toHaveLength(10)
    for (const { reason } of failed) expect(reason).toMatchObject({ name: 'CraikError', code: 'conflict' })
    const receipts = receiptsOf(home.home)
    expect(receipts).toHaveLength(31)
    expect(isGapless(receipts)).toBe(true)
  })

  it('fail alone: an end without a begin, a second end, an unknown procedure', async () => {
    using home = new TestHome()
    {
      await using opened = await openLog(home.home)
      const { status: _, ...begin } = point(0)
      const open = await opened.log.begin(begin)
      const never = opened.log.openReceipt({ id: newId<ReceiptId>('rcpt', Date.now()), seq: 99 }, begin)
      const results = await Promise.allSettled([
        opened.log.append(point(1)),
        never.end({ status: 'passed' }),
        open.end({ status: 'passed' }),
        opened.log.append(point(2)),
        open.end({ status: 'failed' }),
        opened.store.write(procedure<undefined, void>('no.such.procedure'), undefined),
        opened.log.append(point(3)),
      ])
      const outcome = results.map((result) => (result.status === 'fulfilled' ? 'ok' : result.reason.code))
      expect(outcome).toEqual(['ok', 'conflict', 'ok', 'ok', 'conflict', 'internal', 'ok'])
    }
    const receipts = receiptsOf(home.home)
    expect(receipts.map(({ phase, status }) => status ?? phase)).toEqual([
      'begin',
      'passed',
      'passed',
      'passed',
      'passed',
    ])
    expect(await home.run(['receipts', 'verify'])).toMatchObject({ code: 0 })
  })
})

describe('a very large burst of calls', () => {
  it('is handled without harm', async () => {
    using home = new TestHome()
    await using opened = await openLog(home.home)
    const nothing = procedure<undefined, void>('no.such.procedure')
    const calls = Array.from({ length: 150_000 }, () => opened.store.write(nothing, undefined))
    const results = await Promise.allSettled(calls)
    expect(results.every((result) => result.status === 'rejected' && result.reason.code === 'internal')).toBe(
      true,
    )
    expect(await opened.log.append(point(0))).toMatchObject({ seq: 0 })
  })
})

describe('the database', () => {
  it('refuses every client that changes or removes a receipt', async () => {
    using home = await homeWithReceipts(3)
    const before = receiptsOf(home.home)
    using database = new DatabaseSync(homeAt(home.home).database)
    for (const sql of [
      "UPDATE receipts SET line = 'x' WHERE seq = 1",
      'UPDATE receipts SET seq = seq + 10',
      'DELETE FROM receipts WHERE seq = 2',
      'DELETE FROM receipts',
    ]) {
      expect(() => database.exec(sql), sql).toThrow(/append-only/)
    }
    expect(receiptsOf(home.home)).toEqual(before)
  })

  it('refuses even Craik when it replaces a receipt by its number or its id', async () => {
    using home = await homeWithReceipts(3)
    const before = receiptsOf(home.home)
    using database = await openDatabase(homeAt(home.home))
    const replace = 'INSERT OR REPLACE INTO receipts (seq, id, kind, phase, at_ms, leaf, line)'
    for (const sql of [
      `${replace} SELECT seq, 'rcpt_x', kind, phase, at_ms, leaf, 'x' FROM receipts WHERE seq = 2`,
      `${replace} SELECT 3, id, kind, phase, at_ms, leaf, 'x' FROM receipts WHERE seq = 1`,
    ]) {
      expect(() => database.exec(sql), sql).toThrow(/append-only/)
    }
    expect(receiptsOf(home.home)).toEqual(before)
  })
})

async function homeWithReceipts(count: number): Promise<TestHome> {
  const home = new TestHome()
  await using opened = await openLog(home.home)
  for (let n = 0; n < count; n++) await opened.log.append(point(n))
  return home
}

function checkpointSizes(root: string): readonly number[] {
  using database = openDatabaseOf(root)
  const rows = database.prepare('SELECT size FROM checkpoints ORDER BY size').all()
  return rows.map(({ size }) => size as number)
}

/** Waits for an event that happens by itself. The deadline only ends a test that has failed. */
async function until(condition: () => boolean): Promise<void> {
  const deadline = Date.now() + 30_000
  while (!condition()) {
    if (Date.now() > deadline) throw new Error('it did not happen within 30 seconds')
    await sleep(50)
  }
}

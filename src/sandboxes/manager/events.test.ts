import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EventLog } from './events.ts'

describe('events', () => {
  let folder: string
  let nowMs = 0
  const now = () => nowMs
  const never = new AbortController().signal
  beforeEach(() => {
    folder = mkdtempSync(join(tmpdir(), 'craik-events-'))
  })
  afterEach(() => rmSync(folder, { recursive: true, force: true }))

  async function types(log: EventLog): Promise<string[]> {
    const seen: string[] = []
    for await (const { type } of log.read(false, never)) seen.push(type)
    return seen
  }

  it('are there again for the next process, but for a last line that was cut', async () => {
    const log = await EventLog.open(folder, now)
    log.add('created')
    log.add('job_started', { job: 'job_1' })
    await log.close()
    writeFileSync(join(folder, 'events.jsonl'), '{"atMs":1,"ty', { flag: 'a' })
    expect(await types(await EventLog.open(folder, now))).toEqual(['created', 'job_started'])
  })

  it('keep the newest in memory and on disk, however many there are', async () => {
    const log = await EventLog.open(folder, now)
    for (let round = 0; round < 30; round++) {
      for (let i = 0; i < 900; i++) log.add('job_ended', { message: `${round} ${i} ${'x'.repeat(400)}` })
      // What is written at once is bounded, so it is given its turn.
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await log.close()
    const kept: string[] = []
    for await (const { message } of log.read(false, never)) kept.push(message!.slice(0, 6).trim())
    expect(kept).toHaveLength(1000)
    expect(kept.at(-1)).toBe('29 899')
    const sizes = readdirSync(folder).map((name) => statSync(join(folder, name)).size)
    expect(Math.max(...sizes)).toBeLessThan(2 * 1024 ** 2)
    expect(sizes).toHaveLength(2)
  })

  it('are not pushed out by what the inside can cause', async () => {
    const log = await EventLog.open(folder, now)
    log.add('created')
    for (let i = 0; i < 5000; i++) log.add('disconnected')
    nowMs += 60_000
    log.add('disconnected')
    const seen = await types(log)
    expect(seen[0]).toBe('created')
    expect(seen).toHaveLength(32)
  })

  it('that are rare by themselves are all told, whatever else there is of their kind', async () => {
    const log = await EventLog.open(folder, now)
    for (let i = 0; i < 100; i++) log.add('refused')
    log.add('refused', { message: 'egress' }, 'rare')
    const told: (string | undefined)[] = []
    for await (const { message } of log.read(false, never)) told.push(message)
    expect(told.at(-1)).toBe('egress')
  })

  it('are followed until the reader leaves or the log is closed', async () => {
    const log = await EventLog.open(folder, now)
    const leaving = new AbortController()
    const left = (async () => {
      for await (const _ of log.read(true, leaving.signal)) leaving.abort()
    })()
    const closed = (async () => {
      const seen: string[] = []
      for await (const { type } of log.read(true, never)) seen.push(type)
      return seen
    })()
    log.add('created')
    await left
    log.add('lost')
    await log.close()
    expect(await closed).toEqual(['created', 'lost'])
  })
})

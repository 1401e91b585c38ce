import { mkdtempSync, readdirSync, rmSync, statSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { EventLog } from './event-log.ts'

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

  it('are read again by the next process, except a truncated last line', async () => {
    const log = await EventLog.open(folder, now)
    log.add('created')
    log.add('job_started', { job: 'job_1' })
    await log.close()
    writeFileSync(join(folder, 'events.jsonl'), '{"atMs":1,"ty', { flag: 'a' })
    expect(await types(await EventLog.open(folder, now))).toEqual(['created', 'job_started'])
  })

  it('keep only the newest in memory and on disk', async () => {
    const log = await EventLog.open(folder, now)
    for (let round = 0; round < 30; round++) {
      for (let i = 0; i < 900; i++) log.add('job_ended', { message: `${round} ${i} ${'x'.repeat(400)}` })
      // A single write is bounded, so each round waits until it happened.
      await new Promise((resolve) => setTimeout(resolve, 5))
    }
    await log.close()
    const stored: string[] = []
    for await (const { message } of log.read(false, never)) stored.push(message!.slice(0, 6).trim())
    expect(stored).toHaveLength(1000)
    expect(stored.at(-1)).toBe('29 899')
    const sizes = readdirSync(folder).map((name) => statSync(join(folder, name)).size)
    expect(Math.max(...sizes)).toBeLessThan(2 * 1024 ** 2)
    expect(sizes).toHaveLength(2)
  })

  it('are not pushed out by events that the sandbox can cause', async () => {
    const log = await EventLog.open(folder, now)
    log.add('created')
    for (let i = 0; i < 5000; i++) log.add('disconnected')
    nowMs += 60_000
    log.add('disconnected')
    const seen = await types(log)
    expect(seen[0]).toBe('created')
    expect(seen).toHaveLength(32)
  })

  it('that are marked rare are always added, however many others of their type there are', async () => {
    const log = await EventLog.open(folder, now)
    for (let i = 0; i < 100; i++) log.add('refused')
    log.add('refused', { message: 'egress' }, 'rare')
    const reported: (string | undefined)[] = []
    for await (const { message } of log.read(false, never)) reported.push(message)
    expect(reported.at(-1)).toBe('egress')
  })

  it('are followed until the reader stops or the log is closed', async () => {
    const log = await EventLog.open(folder, now)
    const controller = new AbortController()
    const left = (async () => {
      for await (const _ of log.read(true, controller.signal)) controller.abort()
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

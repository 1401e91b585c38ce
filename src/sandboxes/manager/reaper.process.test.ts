import { describe, expect, it } from 'vitest'
import type { Clock } from '../../lib/clock.ts'
import { listGrants, revokeGrant } from '../../policy/grants.ts'
import type { SandboxView } from '../manager-types.ts'
import { caller, exec, jobId, managerScene, OPERATOR, readAll } from './manager.fixture.ts'

const MINUTE_MS = 60_000

/** Goes on by itself, and further when a test says so. */
class LeapingClock implements Clock {
  #aheadMs = 0
  nowMs = () => Date.now() + this.#aheadMs
  leap(ms: number): void {
    this.#aheadMs += ms
  }
}

function scene() {
  const clock = new LeapingClock()
  const made = managerScene(undefined, clock)
  return {
    ...made,
    clock,
    get manager() {
      return made.manager
    },
    /** The reaper looks, some time later. */
    async after(ms: number, id: SandboxView['id']): Promise<SandboxView> {
      clock.leap(ms)
      await made.manager.reap()
      return made.manager.get(id)
    },
    [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
  }
}

const never = { idleMs: null, lifetimeMs: null, keepMs: null }

describe('a sandbox that is left alone', () => {
  it('is stopped, in its operator’s name and with the reason on record, and its disk is kept', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: 10 * MINUTE_MS } })
    expect(await test.after(9 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({
      state: 'stopped',
      notice: expect.stringContaining('idle timeout'),
    })
    const [begin, end] = await test.receipts({ operation: 'stop' })
    expect(begin).toMatchObject({ phase: 'begin', operator: OPERATOR, metadata: { reason: 'idle' } })
    expect(begin?.links).toMatchObject({ grant_outcome: 'usable' })
    expect(end).toMatchObject({ phase: 'end', status: 'passed' })
    expect(await test.manager.resume(caller(), id)).toMatchObject({ state: 'running', notice: null })
    expect(await test.after(1 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
  })

  it('is not stopped while anything is at work in it, attached or detached', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: MINUTE_MS } })
    const { output } = await test.manager.jobs.start(caller(), id, jobId(), { spec: exec('sleep', '300') })
    output.destroy()
    for (let i = 0; i < 3; i++)
      expect(await test.after(5 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    expect((await test.manager.get(id)).stopsAtMs).toBeNull()
  })

  it('is not stopped while a stream into it is open, nor right after a call', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: MINUTE_MS } })
    const watch = await test.manager.files.watch(caller(), id, '.', false, 0)
    expect(await test.after(5 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    watch.destroy()
    await readAll((await test.manager.jobs.start(caller(), id, jobId(), { spec: exec('true') })).output)
    expect(await test.after(5 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({ state: 'stopped' })
  })

  it('is known to have been left alone after a restart too', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: 10 * MINUTE_MS } })
    await readAll((await test.manager.jobs.start(caller(), id, jobId(), { spec: exec('true') })).output)
    const { activeAtMs } = await test.after(5 * MINUTE_MS, id)
    await test.restart()
    expect((await test.manager.get(id)).activeAtMs).toBe(activeAtMs)
    expect(await test.after(9 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({ state: 'stopped' })
  })

  it('is left as it is when it is paused, or was to be left alone', async () => {
    await using test = scene()
    const [paused, stored] = [
      await test.create({ ends: { idleMs: MINUTE_MS } }),
      await test.create({ ends: never }),
    ]
    await test.manager.pause(caller(), paused)
    expect(await test.after(60 * 24 * MINUTE_MS, paused)).toMatchObject({ state: 'paused' })
    expect(await test.manager.get(stored)).toMatchObject({ state: 'running', stopsAtMs: null })
    await test.manager.resume(caller(), paused)
    expect(await test.after(MINUTE_MS / 2, paused)).toMatchObject({ state: 'running' })
  })

  it('is not asked for again and again when policy says no', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: MINUTE_MS } })
    for (const { grant } of await listGrants(test.store, test.clock.nowMs()))
      if (grant.capability === 'sandbox.stop') await revokeGrant(test.store, grant.id, OPERATOR)
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    for (let i = 0; i < 5; i++) await test.after(MINUTE_MS / 4, id)
    expect(await test.receipts({ operation: 'stop', status: 'denied' })).toHaveLength(2)
  })
})

describe('a sandbox whose time is over', () => {
  it('is stopped although something runs in it, counted from when it was started last', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: null, lifetimeMs: 10 * MINUTE_MS } })
    await test.after(9 * MINUTE_MS, id)
    await test.manager.stop(caller(), id)
    await test.manager.resume(caller(), id)
    const { output } = await test.manager.jobs.start(caller(), id, jobId(), { spec: exec('sleep', '300') })
    output.destroy()
    expect(await test.after(9 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({
      state: 'stopped',
      notice: expect.stringContaining('maximum lifetime'),
    })
    expect(await test.receipts({ operation: 'exec', phase: 'end' })).toMatchObject([
      { status: 'failed', metadata: { outcome: 'stopped' } },
    ])
  })

  it('is removed when it was to be kept only so long, and never otherwise', async () => {
    await using test = scene()
    const [brief, forever] = [
      await test.create({ ends: { ...never, keepMs: 60 * MINUTE_MS } }),
      await test.create({ ends: never }),
    ]
    // What runs is not kept, but used.
    expect(await test.after(600 * MINUTE_MS, brief)).toMatchObject({ state: 'running' })
    for (const id of [brief, forever]) await test.manager.stop(caller(), id)
    expect(await test.after(50 * MINUTE_MS, brief)).toMatchObject({ state: 'stopped' })
    test.clock.leap(11 * MINUTE_MS)
    await test.manager.reap()
    expect((await test.manager.list()).map(({ id }) => id)).toEqual([forever])
    expect(await test.receipts({ operation: 'delete' })).toMatchObject([
      { phase: 'begin', metadata: { reason: 'retention' } },
      { phase: 'end', status: 'passed' },
    ])
  })
})

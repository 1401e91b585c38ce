import { describe, expect, it } from 'vitest'
import type { Clock } from '../../lib/clock.ts'
import { listGrants, revokeGrant } from '../../policy/grants.ts'
import type { SandboxView } from '../manager-types.ts'
import { caller, exec, jobId, MANAGER_OPERATOR, managerScene, readOutput } from './manager.fixture.ts'

const MINUTE_MS = 60_000

/** Runs like the system clock, and jumps ahead when a test says so. */
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
    /** Moves the clock ahead, and runs the reaper. */
    async after(ms: number, id: SandboxView['id']): Promise<SandboxView> {
      clock.leap(ms)
      await made.manager.reap()
      return made.manager.get(id)
    },
    [Symbol.asyncDispose]: () => made[Symbol.asyncDispose](),
  }
}

const never = { idleMs: null, lifetimeMs: null, keepMs: null }

describe('a sandbox with an idle timeout', () => {
  it('is stopped in its operator’s name, with the reason recorded, and its disk is kept', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: 10 * MINUTE_MS } })
    expect(await test.after(9 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({
      state: 'stopped',
      notice: expect.stringContaining('idle timeout'),
    })
    const [begin, end] = await test.receipts({ operation: 'stop' })
    expect(begin).toMatchObject({ phase: 'begin', operator: MANAGER_OPERATOR, metadata: { reason: 'idle' } })
    expect(begin?.links).toMatchObject({ grant_outcome: 'usable' })
    expect(end).toMatchObject({ phase: 'end', status: 'passed' })
    expect(await test.manager.resume(caller(), id)).toMatchObject({ state: 'running', notice: null })
    expect(await test.after(1 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
  })

  it('is not stopped while a job runs in it, attached or detached', async () => {
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
    await readOutput((await test.manager.jobs.start(caller(), id, jobId(), { spec: exec('true') })).output)
    expect(await test.after(5 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({ state: 'stopped' })
  })

  it('keeps its idle time across a restart', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: 10 * MINUTE_MS } })
    await readOutput((await test.manager.jobs.start(caller(), id, jobId(), { spec: exec('true') })).output)
    const { activeAtMs } = await test.after(5 * MINUTE_MS, id)
    await test.restart()
    expect((await test.manager.get(id)).activeAtMs).toBe(activeAtMs)
    expect(await test.after(9 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({ state: 'stopped' })
  })

  it('is not stopped while it is paused, nor when its timeout is null', async () => {
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

  it('is not stopped again and again when policy denies it', async () => {
    await using test = scene()
    const id = await test.create({ ends: { idleMs: MINUTE_MS } })
    for (const { grant } of await listGrants(test.store, test.clock.nowMs()))
      if (grant.capability === 'sandbox.stop') await revokeGrant(test.store, grant.id, MANAGER_OPERATOR)
    expect(await test.after(2 * MINUTE_MS, id)).toMatchObject({ state: 'running' })
    for (let i = 0; i < 5; i++) await test.after(MINUTE_MS / 4, id)
    expect(await test.receipts({ operation: 'stop', status: 'denied' })).toHaveLength(2)
  })
})

describe('a sandbox with a limited lifetime or retention', () => {
  it('is stopped although something runs in it, counted from its last start', async () => {
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

  it('is removed when its retention time has passed, and never without one', async () => {
    await using test = scene()
    const [brief, forever] = [
      await test.create({ ends: { ...never, keepMs: 60 * MINUTE_MS } }),
      await test.create({ ends: never }),
    ]
    // The retention time does not pass while the sandbox runs.
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

/** A process dies in the middle of a snapshot, a restore or a fork. The next process finds all of it, or nothing. */
import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import type { SandboxId } from '../../lib/ids.ts'
import { CrashingManager } from './crashing-manager.fixture.ts'
import { allowCreate, caller, exec, jobId, readOutput, SANDBOX_REQUEST } from './manager.fixture.ts'

const TIMES = process.env.CRAIK_SOAK === '1' ? 25 : 9

async function inside({ manager }: CrashingManager, id: SandboxId, script: string): Promise<string> {
  const { output } = await manager.jobs.start(caller(), id, jobId(), { spec: exec('sh', '-c', script) })
  return (await readOutput(output)).stdout
}

async function withSandbox(): Promise<{ real: CrashingManager; id: SandboxId }> {
  const real = new CrashingManager()
  await allowCreate(real.store)
  const { id } = await real.manager.create(caller(), SANDBOX_REQUEST)
  await inside(real, id, 'echo one > a')
  return { real, id }
}

/** Checks that the records match the disk, and that nothing is left open. */
async function requireConsistent(real: CrashingManager): Promise<void> {
  const listed = (await real.manager.snapshots.list()).map(({ id }) => id as string)
  const { snapshots } = real.store.home
  const stored = existsSync(snapshots) ? readdirSync(snapshots) : []
  expect(stored.toSorted()).toEqual(listed.toSorted())
  for (const folder of real.folders())
    expect(
      readdirSync(join(real.folder, 'sandboxes', folder)).filter((name) => /\.(next|before)$/.test(name)),
    ).toEqual([])
  const open = await real.store.read((tables) => tables.openReceipts.list())
  const bodies = await real.store.bodies()
  const about = open.map(({ id }) => bodies.find((body) => body.id === id)?.operation)
  // The receipts of a process that is really dead are closed when the store is opened.
  expect(about.filter((operation) => !['exec', 'use', 'delete'].includes(operation!))).toEqual([])
  for (const { state } of await real.manager.list())
    expect(['running', 'stopped', 'lost', 'paused']).toContain(state)
}

async function lastEnd(real: CrashingManager, operation: string): Promise<string | undefined> {
  const bodies = await real.store.bodies()
  return bodies.findLast((body) => body.phase === 'end' && body.operation === operation)?.status
}

it.each(Array.from({ length: 3 }, (_, k) => k))(
  'recovers from a crash during a snapshot, after %i writes',
  async (afterWrites) => {
    for (const isLastDone of [false, true]) {
      const { real, id } = await withSandbox()
      await using _ = real
      const work = () => real.manager.snapshot(caller(), id, { name: 'before' })
      await real.crash({ work, afterWrites, isLastDone })
      await requireConsistent(real)
      const isRetained = (await real.manager.snapshots.list()).length === 1
      expect(isRetained).toBe((await lastEnd(real, 'snapshot')) === 'passed')
      expect(await real.manager.get(id)).toMatchObject({ state: 'running' })
      expect(await inside(real, id, 'cat a')).toBe('one\n')
    }
  },
)

it.each(Array.from({ length: TIMES }, (_, k) => k))(
  'recovers from a crash during a restore, after %i writes',
  async (afterWrites) => {
    const { real, id } = await withSandbox()
    await using _ = real
    await real.manager.snapshot(caller(), id, { name: 'before' })
    await inside(real, id, 'echo two > a')
    const work = () => real.manager.restore(caller(), id, 'before')
    await real.crash({ work, afterWrites, isLastDone: afterWrites % 2 === 0 })
    await requireConsistent(real)
    const { state } = await real.manager.get(id)
    if (state !== 'running') await real.manager.resume(caller(), id)
    const isRestored = (await lastEnd(real, 'restore')) === 'passed'
    expect(await inside(real, id, 'cat a')).toBe(isRestored ? 'one\n' : 'two\n')
  },
)

it.each(Array.from({ length: TIMES }, (_, k) => k))(
  'recovers from a crash during a fork, after %i writes',
  async (afterWrites) => {
    const { real, id } = await withSandbox()
    await using _ = real
    await allowCreate(real.store)
    const work = () => real.manager.fork(caller(), id, { name: 'child' })
    await real.crash({ work, afterWrites, isLastDone: afterWrites % 2 === 1 })
    await requireConsistent(real)
    expect(await real.manager.snapshots.list()).toEqual([])
    for (const { id: each } of await real.manager.list())
      expect(await inside(real, each as SandboxId, 'cat a')).toBe('one\n')
  },
)

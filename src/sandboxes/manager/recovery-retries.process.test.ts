import { describe, expect, it } from 'vitest'
import type { SandboxBackend } from '../backend.ts'
import {
  caller,
  eventually,
  exec,
  jobId,
  type ManagerScene,
  managerScene,
  readOutput,
} from './manager.fixture.ts'
import { plainBackend } from './plain-instance.fixture.ts'

/** Returns a backend whose engine can stop answering. */
function silentBackend() {
  const backend = plainBackend()
  const engine = { isSilent: false, asked: 0 }
  const ask = () => {
    engine.asked++
    if (engine.isSilent) throw new Error('the engine does not answer')
  }
  const using: SandboxBackend = {
    ...backend,
    async recover(handle, spec) {
      ask()
      return backend.recover(handle, spec)
    },
    async sweep(spec, handle) {
      ask()
      return backend.sweep(spec, handle)
    },
  }
  return { backend, engine, using }
}

const running = (scene: ManagerScene, id: Parameters<ManagerScene['manager']['stop']>[1]) =>
  eventually(async () => ((await scene.manager.get(id)).connected ? true : undefined))

describe('a sandbox whose engine does not answer', () => {
  it('stays as it is, reports why, and is recovered when the engine answers again', async () => {
    const { engine, using, backend } = silentBackend()
    await using scene = managerScene(using)
    const id = await scene.create()
    engine.isSilent = true
    await scene.restart()
    expect(await scene.manager.get(id)).toMatchObject({
      state: 'running',
      connected: false,
      notice: 'the engine does not answer',
    })
    expect(scene.manager.busy).toBe(true)
    const unavailable = {
      code: 'unavailable',
      message: expect.stringContaining('the engine does not answer'),
    }
    const start = () => scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('echo', 'here') })
    for (const attempt of [
      start,
      () => scene.manager.stop(caller(), id),
      () => scene.manager.resume(caller(), id),
      () => scene.manager.pause(caller(), id),
    ])
      await expect(attempt()).rejects.toMatchObject(unavailable)
    engine.isSilent = false
    await running(scene, id)
    expect(await scene.manager.get(id)).toMatchObject({ state: 'running', notice: null })
    expect((await readOutput((await start()).output)).stdout).toBe('here\n')
    expect(await scene.receipts({ operation: 'lost' })).toEqual([])
    for (const pid of backend.pids.values()) expect(pid).toBeGreaterThan(0)
  })

  it('can be deleted, and a second request removes what was left of it', async () => {
    const { engine, using } = silentBackend()
    await using scene = managerScene(using)
    const id = await scene.create()
    engine.isSilent = true
    await scene.restart()
    await expect(scene.manager.delete(caller(), id)).rejects.toMatchObject({ code: 'internal' })
    expect(await scene.manager.get(id)).toMatchObject({ state: 'lost' })
    expect(scene.manager.busy).toBe(false)
    engine.isSilent = false
    await scene.manager.delete(caller(), id)
    expect(await scene.manager.list()).toEqual([])
    expect(await scene.store.tables.openReceipts.list()).toEqual([])
  })

  it('has its failed resume undone as soon as the engine answers again', async () => {
    const { engine, using } = silentBackend()
    const failing: SandboxBackend = {
      ...using,
      async create(spec) {
        await using.create(spec)
        engine.isSilent = true
        throw new Error('broke off')
      },
    }
    const scripted = { current: using }
    await using scene = managerScene({ ...using, create: (spec) => scripted.current.create(spec) })
    const id = await scene.create()
    await scene.manager.stop(caller(), id)
    scripted.current = failing
    await expect(scene.manager.resume(caller(), id)).rejects.toThrow('broke off')
    expect(await scene.manager.get(id)).toMatchObject({ state: 'resuming' })
    engine.isSilent = false
    await eventually(async () => ((await scene.manager.get(id)).state === 'stopped' ? true : undefined))
    scripted.current = using
    expect(await scene.manager.resume(caller(), id)).toMatchObject({ state: 'running' })
    const resumes = await scene.receipts({ operation: 'resume', phase: 'end' })
    expect(resumes.map(({ status }) => status)).toEqual(['indeterminate', 'passed'])
  })
})

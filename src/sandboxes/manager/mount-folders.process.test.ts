import { existsSync, mkdirSync, readdirSync, rmSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../test/temp-folder.ts'
import { CraikError } from '../../errors.ts'
import type { SandboxBackend, SandboxSpec } from '../backend.ts'
import { createSandboxManager } from '../manager.ts'
import {
  allowCreate,
  caller,
  eventually,
  type ManagerScene,
  managerScene,
  SANDBOX_REQUEST,
} from './manager.fixture.ts'
import type { ManagerOptions } from './manager-options.ts'
import { plainBackend } from './plain-instance.fixture.ts'

const SLOW = { timeout: 60_000 }
const made: string[] = []
const scenes: ManagerScene[] = []
afterEach(async () => {
  for (const scene of scenes.splice(0)) await scene[Symbol.asyncDispose]()
  for (const folder of made.splice(0)) rmSync(folder, { recursive: true, force: true })
})

type Show = (spec: SandboxSpec) => Promise<void>

/**
 * Creates a scene whose instances can mount a workspace later, and lets the test decide what happens then. One instance
 * waits for the next in-place sandbox.
 */
async function hotMountScene(show: Show) {
  const plain = plainBackend()
  const started: SandboxSpec[] = []
  const backend: SandboxBackend = {
    ...plain,
    supportsHotMounts: () => true,
    async create(spec) {
      started.push(spec)
      mkdirSync(join(spec.folder, 'data/home'), { recursive: true })
      const instance = await plain.create(spec)
      return spec.late === undefined ? instance : { ...instance, mountFolders: show }
    },
  }
  const options: Partial<ManagerOptions> = { warmPlaces: 1, poolQuietMs: 1 }
  const scene = managerScene(backend, undefined, options)
  scenes.push(scene)
  const inPlace = () => {
    const folder = tempFolder('craik-late-')
    made.push(folder)
    return { workspace: { mode: 'in-place', folder } } as const
  }
  await scene.create(inPlace())
  await eventually(async () => (scene.manager.warm === 1 ? true : undefined))
  const [warm] = await scene.store.tables.warmInstances.list({}, 10)
  return { scene, plain, backend, options, started, inPlace, warm: warm! }
}

const findPassed = (scene: ManagerScene, id: string) =>
  scene
    .receipts({ operation: 'create', phase: 'end', capability: 'sandbox.create' })
    .then((ends) => ends.filter(({ links }) => links?.sandbox_id === id))

describe('a warm instance for a sandbox with folders', () => {
  it('gets them mounted after the decision, and cannot be used before', SLOW, async () => {
    const seen: unknown[] = []
    const { scene, started, inPlace, warm } = await hotMountScene(async (spec) => {
      const { state } = await scene.manager.get(spec.id)
      const begun = await scene.receipts({
        operation: 'create',
        phase: 'begin',
        capability: 'sandbox.create',
      })
      seen.push(
        spec.workspace,
        state,
        begun.some(({ links }) => links?.sandbox_id === spec.id),
      )
    })
    const before = started.length
    expect(started.at(-1)).toMatchObject({
      late: { workspace: true, mounts: false },
      workspace: { mode: 'copy' },
    })
    const requested = inPlace()
    expect(await scene.create(requested)).toBe(warm.id)
    expect(seen).toEqual([requested.workspace, 'creating', true])
    expect(started).toHaveLength(before)
    expect(await scene.manager.get(warm.id)).toMatchObject({ state: 'running', connected: true })
    expect(await findPassed(scene, warm.id)).toMatchObject([{ status: 'passed', metadata: { warm: true } }])
  })

  it('is given up when they cannot be mounted, and another instance is started', SLOW, async () => {
    const { scene, plain, started, inPlace, warm } = await hotMountScene(async () => {
      throw new CraikError('unavailable', 'it cannot be shown')
    })
    const pid = plain.pids.get(warm.id)!
    const requested = inPlace()
    const id = await scene.create(requested)
    expect(id).toBe(warm.id)
    expect(started.find((spec) => spec.id === id && spec.late === undefined)).toMatchObject(requested)
    expect(() => process.kill(pid, 0)).toThrow()
    expect(await scene.manager.get(id)).toMatchObject({ state: 'running', connected: true })
    const [end] = await findPassed(scene, id)
    expect(end).toMatchObject({ status: 'passed' })
    expect(end?.metadata).not.toHaveProperty('warm')
  })

  it('ends with the sandbox when the requested folders may not be mounted', SLOW, async () => {
    const { scene, plain, inPlace, warm } = await hotMountScene(async () => {
      throw new CraikError('usage', 'not this folder')
    })
    const pid = plain.pids.get(warm.id)!
    await expect(scene.create(inPlace())).rejects.toMatchObject({ code: 'usage', message: 'not this folder' })
    expect(() => process.kill(pid, 0)).toThrow()
    expect(existsSync(join(scene.folder, 'sandboxes', warm.id))).toBe(false)
    expect(await scene.store.tables.sandboxes.get(warm.id)).toBeUndefined()
    expect(await findPassed(scene, warm.id)).toMatchObject([{ status: 'failed' }])
  })

  it('mounts nothing that was not granted, and stays warm', SLOW, async () => {
    const seen: unknown[] = []
    const { scene, inPlace } = await hotMountScene(async (spec) => void seen.push(spec))
    await allowCreate(scene.store)
    await expect(scene.manager.create(caller(), { ...SANDBOX_REQUEST, ...inPlace() })).rejects.toMatchObject({
      code: 'denied',
    })
    expect([seen, scene.manager.warm]).toEqual([[], 1])
  })

  it('is removed with its sandbox when its process died during the mount', SLOW, async () => {
    const showing = Promise.withResolvers<void>()
    const never = Promise.withResolvers<void>()
    const { scene, plain, backend, options, inPlace, warm } = await hotMountScene(() => {
      showing.resolve()
      return never.promise
    })
    const pid = plain.pids.get(warm.id)!
    const creating = scene.create(inPlace()).catch((error: unknown) => error)
    await showing.promise
    const next = createSandboxManager({
      store: scene.store,
      log: scene.store.log,
      clock: { nowMs: () => Date.now() },
      home: { ...scene.store.home, sandboxes: join(scene.folder, 'sandboxes') },
      backends: { process: backend },
      logger: () => {},
      environment: { HOME: '/nonexistent' },
      ...options,
    })
    try {
      await next.recover()
      expect(await scene.store.tables.sandboxes.get(warm.id)).toBeUndefined()
      expect(() => process.kill(pid, 0)).toThrow()
      expect(readdirSync(join(scene.folder, 'sandboxes'))).not.toContain(warm.id)
      expect(await findPassed(scene, warm.id)).toMatchObject([{ status: 'indeterminate' }])
    } finally {
      never.reject(new Error('it is gone'))
      await creating
      await next.close()
    }
  })
})

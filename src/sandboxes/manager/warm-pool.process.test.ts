import { existsSync, readdirSync } from 'node:fs'
import { join } from 'node:path'
import { afterEach, describe, expect, it } from 'vitest'
import type { Clock } from '../../lib/clock.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxBackend } from '../backend.ts'
import { createSandboxManager, type SupervisedSandboxes } from '../manager.ts'
import type { CreateRequest } from '../manager-types.ts'
import { RECENT_MS } from '../pool/warm-demand.ts'
import {
  allowCreate,
  caller,
  eventually,
  exec,
  jobId,
  type ManagerScene,
  managerScene,
  readOutput,
  SANDBOX_REQUEST,
} from './manager.fixture.ts'
import type { ManagerOptions } from './manager-options.ts'
import { plainBackend } from './plain-instance.fixture.ts'

const SLOW = { timeout: 60_000 }

class LeapingClock implements Clock {
  #aheadMs = 0
  nowMs = () => Date.now() + this.#aheadMs
  leap(ms: number): void {
    this.#aheadMs += ms
  }
}

interface PoolScene {
  readonly scene: ManagerScene
  readonly clock: LeapingClock
  readonly backend: ReturnType<typeof plainBackend>
  /** Returns how many instances the backend was asked to start. */
  countStarted(): number
  readonly options: Partial<ManagerOptions>
}

const scenes: ManagerScene[] = []
afterEach(async () => {
  for (const scene of scenes.splice(0)) await scene[Symbol.asyncDispose]()
})

function poolScene(warmPlaces: number, more: Partial<ManagerOptions> = {}): PoolScene {
  const plain = plainBackend()
  let count = 0
  const backend = {
    ...plain,
    create(spec) {
      count++
      return plain.create(spec)
    },
  } satisfies SandboxBackend & typeof plain
  const clock = new LeapingClock()
  const options = { warmPlaces, poolQuietMs: 1, ...more }
  const scene = managerScene(backend, clock, options)
  scenes.push(scene)
  return { scene, clock, backend: plain, countStarted: () => count, options }
}

const waiting = (manager: SupervisedSandboxes, count: number) =>
  eventually(async () => (manager.warm === count ? true : undefined))

async function run(scene: ManagerScene, id: SandboxId, ...argv: string[]): Promise<string> {
  const { output } = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec(...argv) })
  return (await readOutput(output)).stdout
}

async function warmIds(scene: ManagerScene): Promise<unknown[]> {
  const ends = await scene.receipts({ operation: 'create', phase: 'end', status: 'passed' })
  return ends.filter(({ metadata }) => metadata?.warm === true).map(({ links }) => links?.sandbox_id)
}

async function createMany(
  manager: SupervisedSandboxes,
  scene: ManagerScene,
  count: number,
): Promise<SandboxId[]> {
  for (let i = 0; i < count; i++) await allowCreate(scene.store)
  const views = await Promise.all(
    Array.from({ length: count }, () => manager.create(caller(), SANDBOX_REQUEST)),
  )
  return views.map(({ id }) => id)
}

const rows = (scene: ManagerScene) => scene.store.tables.warmInstances.list({}, 100)
const folders = (scene: ManagerScene) => {
  const path = join(scene.folder, 'sandboxes')
  return existsSync(path) ? readdirSync(path) : []
}

/** Creates another manager over the same store and folder, like that of another process. */
function another({ scene, options }: PoolScene, backend: SandboxBackend): SupervisedSandboxes {
  return createSandboxManager({
    store: scene.store,
    log: scene.store.log,
    clock: { nowMs: () => Date.now() },
    home: { ...scene.store.home, sandboxes: join(scene.folder, 'sandboxes') },
    backends: { process: backend },
    logger: () => {},
    environment: { HOME: '/nonexistent' },
    recoveryPauseMs: 10,
    ...options,
  })
}

describe('a warm instance', () => {
  it(
    'becomes a sandbox at once, with its name, environment and policy, and nothing is started for it',
    SLOW,
    async () => {
      const { scene, countStarted: started } = poolScene(1)
      await scene.create()
      await waiting(scene.manager, 1)
      const before = started()
      const [member] = await rows(scene)
      expect(await scene.manager.list()).toHaveLength(1)
      const environment = { COLOUR: 'blue', HOME: '/elsewhere' }
      const request: Partial<CreateRequest> = { name: 'parser', environment }
      const id = await scene.create(request)
      expect(started()).toBe(before)
      expect(id).toBe(member?.id)
      expect(await scene.manager.get('parser')).toMatchObject({ id, state: 'running', connected: true })
      expect(await run(scene, id, 'sh', '-c', 'echo $COLOUR $HOME')).toBe('blue /elsewhere\n')
      expect(await warmIds(scene)).toEqual([id])
      await scene.manager.stop(caller(), id)
      // The command that exercised the instance before does not count for the sandbox.
      const [counted] = await scene.receipts({ operation: 'count' })
      expect(counted?.measures?.find(({ name }) => name === 'jobs')?.value).toBe(1)
      await scene.manager.resume(caller(), id)
      expect(await run(scene, id, 'sh', '-c', 'echo $COLOUR')).toBe('blue\n')
      await scene.manager.delete(caller(), id)
      expect(folders(scene)).not.toContain(id)
    },
  )

  it(
    'becomes only one of the sandboxes requested at the same time: three are warm, and all are different',
    SLOW,
    async () => {
      const { scene } = poolScene(3)
      const first = await createMany(scene.manager, scene, 3)
      await waiting(scene.manager, 3)
      const members = (await rows(scene)).map(({ id }) => id)
      const made = await createMany(scene.manager, scene, 20)
      expect(new Set([...first, ...made]).size).toBe(23)
      const warm = await warmIds(scene)
      expect(new Set(warm)).toEqual(new Set(members))
      expect(warm).toHaveLength(3)
      const output = await Promise.all(made.map((id) => run(scene, id, 'pwd')))
      expect(output).toEqual(
        made.map((id) => `${join(scene.folder, 'sandboxes', id, 'data/home/project')}\n`),
      )
    },
  )

  it('becomes a sandbox of only one of two processes over the same store', SLOW, async () => {
    const pool = poolScene(2)
    const { scene, backend } = pool
    const other = another(pool, backend)
    try {
      await createMany(scene.manager, scene, 2)
      await createMany(other, scene, 2)
      await Promise.all([waiting(scene.manager, 2), waiting(other, 2)])
      const made = await Promise.all([createMany(scene.manager, scene, 4), createMany(other, scene, 4)])
      expect(new Set(made.flat()).size).toBe(8)
      const warm = await warmIds(scene)
      expect(warm).toHaveLength(4)
      expect(new Set(warm).size).toBe(4)
    } finally {
      for (const { id } of await other.list()) await other.delete(caller(), id).catch(() => {})
      await other.close()
    }
  })

  it('returns to the pool when the sandbox is denied, and the next sandbox uses it', SLOW, async () => {
    const { scene } = poolScene(1)
    await scene.create()
    await waiting(scene.manager, 1)
    await expect(scene.manager.create(caller(), SANDBOX_REQUEST)).rejects.toMatchObject({ code: 'denied' })
    await waiting(scene.manager, 1)
    const [member] = await rows(scene)
    expect(await scene.create()).toBe(member?.id)
  })

  it('is not used for a different request', SLOW, async () => {
    const { scene } = poolScene(1)
    await scene.create()
    await waiting(scene.manager, 1)
    await scene.create({ limits: { processes: 77 } })
    expect(await warmIds(scene)).toEqual([])
  })

  it(
    'is not used for a sandbox from a snapshot, and none is started in advance for another of it',
    SLOW,
    async () => {
      const { scene, clock, countStarted: started } = poolScene(1)
      const origin = await scene.create()
      await run(scene, origin, 'sh', '-c', 'echo kept > a')
      await scene.manager.snapshot(caller(), origin, { name: 'before' })
      await waiting(scene.manager, 1)
      const before = started()
      const [member] = await rows(scene)
      const copy = await scene.create({ from: 'before' })
      await allowCreate(scene.store)
      const { id: fork } = await scene.manager.fork(caller(), origin, {})
      for (const id of [copy, fork]) expect(await run(scene, id, 'cat', 'a')).toBe('kept\n')
      expect(started()).toBe(before + 2)
      expect((await rows(scene)).map(({ id }) => id)).toEqual([member?.id])
      expect(await warmIds(scene)).toEqual([])
      clock.leap(RECENT_MS)
      await scene.manager.reap()
      expect(scene.manager.warm).toBe(0)
    },
  )

  it('that ended by itself is not used, and another one replaces it', SLOW, async () => {
    const { scene, backend } = poolScene(1)
    await scene.create()
    await waiting(scene.manager, 1)
    const [member] = await rows(scene)
    process.kill(backend.pids.get(member!.id)!, 'SIGKILL')
    const next = await eventually(async () => (await rows(scene)).find(({ id }) => id !== member?.id)?.id)
    await eventually(async () => (folders(scene).includes(member!.id) ? undefined : true))
    await waiting(scene.manager, 1)
    expect(await scene.create()).toBe(next)
  })
})

describe('the number of warm instances', () => {
  it('follows recent demand, does not make the manager busy, and falls to zero', SLOW, async () => {
    const { scene, clock } = poolScene(2)
    expect(scene.manager.warm).toBe(0)
    const id = await scene.create()
    await waiting(scene.manager, 1)
    const second = await scene.create()
    await waiting(scene.manager, 2)
    await scene.manager.delete(caller(), id)
    await scene.manager.delete(caller(), second)
    expect(scene.manager.busy).toBe(false)
    clock.leap(RECENT_MS)
    await scene.manager.reap()
    expect(scene.manager.warm).toBe(0)
    expect(await rows(scene)).toEqual([])
    expect(folders(scene)).toEqual([])
  })

  it('is zero when the limit is zero', SLOW, async () => {
    const { scene, countStarted: started } = poolScene(0)
    await scene.create()
    await scene.manager.reap()
    expect([scene.manager.warm, started()]).toEqual([0, 1])
  })

  it('takes no capacity from a sandbox: an instance is given up for it', SLOW, async () => {
    const admission = { total: 9, running: 2, cpuMillis: 1e6, memoryBytes: 2 ** 40, diskBytes: 2 ** 40 }
    const { scene } = poolScene(2, { admission: async () => admission })
    await scene.create()
    await waiting(scene.manager, 1)
    await scene.create({ limits: { processes: 77 } })
    await waiting(scene.manager, 0)
    await eventually(async () => ((await rows(scene)).length === 0 ? true : undefined))
    await expect(scene.create()).rejects.toMatchObject({ code: 'limit_reached' })
  })
})

describe('the warm instances of a process', () => {
  it('that exits are removed', SLOW, async () => {
    const { scene, backend } = poolScene(2)
    const id = await scene.create()
    await scene.create()
    await waiting(scene.manager, 2)
    const members = (await rows(scene)).map((row) => row.id)
    await scene.manager.close()
    expect(await rows(scene)).toEqual([])
    expect(folders(scene)).toHaveLength(2)
    for (const member of members) expect(() => process.kill(backend.pids.get(member)!, 0)).toThrow()
    await scene.restart()
    expect(await run(scene, id, 'echo', 'on')).toBe('on\n')
  })

  it(
    'that died are ended by the next process, even if one was only half started or its record was changed',
    SLOW,
    async () => {
      const pool = poolScene(3)
      const { scene, backend } = pool
      await createMany(scene.manager, scene, 3)
      await waiting(scene.manager, 3)
      const members = (await rows(scene)).map(({ id }) => id)
      scene.store.database
        .prepare(`UPDATE warm_places SET document = replace(document, '"ready"', '"starting"') WHERE id = ?`)
        .run(members[0]!)
      const next = another(pool, backend)
      try {
        await next.recover()
        await eventually(async () => {
          const left = [...folders(scene), ...(await rows(scene)).map(({ id }) => id)]
          return members.some((id) => left.includes(id)) ? undefined : true
        })
        for (const member of members) expect(() => process.kill(backend.pids.get(member)!, 0)).toThrow()
        // The earlier process, which in fact lives, notices that they are no longer its own.
        const [made] = await createMany(scene.manager, scene, 1)
        expect(members).not.toContain(made)
      } finally {
        await next.close()
      }
    },
  )
})

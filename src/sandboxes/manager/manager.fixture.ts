/** The starting point of the manager's tests: a store, the real sidecar, and callers with and without grants. */
import { rmSync } from 'node:fs'
import { join } from 'node:path'
import type { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { type InProcessStore, inProcessStore } from '../../../test/in-process-store.ts'
import { tempFolder } from '../../../test/temp-folder.ts'
import { type Clock, systemClock } from '../../lib/clock.ts'
import { FRAME, FrameReader } from '../../lib/frames.ts'
import { type JobId, newId, type SandboxId } from '../../lib/ids.ts'
import { createGrant } from '../../policy/grants.ts'
import type { Receipt } from '../../receipts/schema.ts'
import type { JobResult, JobSpec } from '../../sidecar/protocol.ts'
import type { Store } from '../../store/store.ts'
import type { SandboxBackend } from '../backend.ts'
import { createSandboxManager, type SupervisedSandboxes } from '../manager.ts'
import type { CreateRequest, ManagerCaller } from '../manager-types.ts'
import type { ManagerOptions } from './manager-options.ts'
import { type PlainBackend, plainBackend } from './plain-instance.fixture.ts'

export const MANAGER_OPERATOR = 'local-user:ada'

export const SANDBOX_REQUEST = {
  backend: 'process',
  isolation: 'none',
  workspace: { mode: 'copy' },
  limits: {},
  environment: {},
} as const satisfies CreateRequest

export function caller(operator = MANAGER_OPERATOR, signal = new AbortController().signal): ManagerCaller {
  return { operator, signal }
}

export interface ManagerScene extends AsyncDisposable {
  readonly store: InProcessStore
  readonly folder: string
  readonly backend: PlainBackend
  manager: SupervisedSandboxes
  /** Starts a new manager over the same store and sandboxes, as after a restart of the process. */
  restart(): Promise<void>
  /** Creates a sandbox, after granting its creation. */
  create(changes?: Partial<CreateRequest>): Promise<SandboxId>
  receipts(filter?: Partial<Receipt['body']>): Promise<readonly Receipt['body'][]>
  readonly complaints: string[]
}

export function managerScene(
  using?: SandboxBackend,
  clock: Clock = systemClock,
  changes: Partial<ManagerOptions> = {},
): ManagerScene {
  const store = inProcessStore(clock)
  const folder = tempFolder('craik-manager-')
  const backend = plainBackend()
  const complaints: string[] = []
  const make = () =>
    createSandboxManager({
      store,
      log: store.log,
      clock,
      // The keys come from the store. Everything else belongs to the scene.
      home: { ...store.home, sandboxes: join(folder, 'sandboxes') },
      backends: { process: using ?? backend },
      logger: (level, message) => level === 'info' || complaints.push(message),
      environment: { HOME: '/nonexistent' },
      recoveryPauseMs: 10,
      ...changes,
    })
  const scene: ManagerScene = {
    store,
    folder,
    backend,
    complaints,
    manager: make(),
    async restart() {
      await scene.manager.close()
      scene.manager = make()
      await scene.manager.recover()
    },
    async create(changes = {}) {
      await allowCreate(store)
      if (changes.workspace?.mode === 'in-place') await allowFolder(store, changes.workspace.folder)
      return (await scene.manager.create(caller(), { ...SANDBOX_REQUEST, ...changes })).id
    },
    async receipts(filter = {}) {
      const wanted = Object.entries(filter)
      return (await store.bodies()).filter((body) =>
        wanted.every(([key, value]) => body[key as keyof Receipt['body']] === value),
      )
    },
    async [Symbol.asyncDispose]() {
      for (const { id } of await scene.manager.list())
        await scene.manager.delete(caller(), id).catch(() => {})
      await scene.manager.close()
      for (const pid of backend.pids.values()) {
        try {
          process.kill(pid, 'SIGKILL')
        } catch {}
      }
      rmSync(folder, { recursive: true, force: true })
    },
  }
  return scene
}

/** Grants what typing `craik sandbox create` approves. */
export async function allowCreate(store: Store, operator = MANAGER_OPERATOR): Promise<void> {
  await createGrant(store, {
    capability: 'sandbox.create',
    subject: operator,
    scope: 'any',
    operations: ['create'],
    target: {},
    max_uses: 1,
    approved_by: operator,
    reason: 'typed by the operator',
  })
}

/** Grants what typing `--in-place` approves. */
async function allowFolder(store: Store, folder: string): Promise<void> {
  await createGrant(store, {
    capability: 'sandbox.mount',
    operations: ['write'],
    target: { paths: [folder] },
    subject: MANAGER_OPERATOR,
    scope: 'any',
    max_uses: 1,
    approved_by: MANAGER_OPERATOR,
  })
}

export function jobId(): JobId {
  return newId<JobId>('job', Date.now())
}

export function exec(...argv: readonly string[]): JobSpec {
  return { kind: 'exec', argv }
}

export interface Ran {
  readonly stdout: string
  readonly stderr: string
  readonly result: JobResult | undefined
}

/** Reads a job's output to its end. */
export async function readOutput(output: Readable): Promise<Ran> {
  const reader = new FrameReader()
  const text = { stdout: '', stderr: '' }
  let result: JobResult | undefined
  for await (const chunk of output) {
    for (const { type, payload } of reader.push(chunk as Buffer)) {
      if (type === FRAME.stdout) text.stdout += payload.toString()
      if (type === FRAME.stderr) text.stderr += payload.toString()
      if (type === FRAME.exit) result = JSON.parse(payload.toString()) as JobResult
    }
  }
  return { ...text, result }
}

/** Waits until `look` finds something. Only the test's own time limit applies. */
export async function eventually<T>(look: () => Promise<T | undefined>): Promise<T> {
  for (;;) {
    const found = await look()
    if (found !== undefined) return found
    await sleep(50)
  }
}

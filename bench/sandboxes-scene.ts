/** The three measured ways to a sandbox: its boundary alone, the manager around it, and the supervisor's API. */
import { spawnSync } from 'node:child_process'
import { mkdirSync, writeFileSync } from 'node:fs'
import type { Socket } from 'node:net'
import { join } from 'node:path'
import { systemClock } from '../src/lib/clock.ts'
import { type JobId, newId, type SandboxId } from '../src/lib/ids.ts'
import { createGrant } from '../src/policy/grants.ts'
import { createReceiptLog } from '../src/receipts/receipt-log.ts'
import type { Isolation, LimitSpec, SandboxBackend, SandboxSpec } from '../src/sandboxes/backend.ts'
import { processBackend } from '../src/sandboxes/backends/process/backend.ts'
import type { Boundary } from '../src/sandboxes/boundary/boundary.ts'
import { connectBoundary } from '../src/sandboxes/boundary/connect-boundary.ts'
import { openHostSocket } from '../src/sandboxes/boundary/host-socket.ts'
import { createSandboxManager, type SupervisedSandboxes } from '../src/sandboxes/manager.ts'
import type { ManagerCaller } from '../src/sandboxes/manager-types.ts'
import type { ApiClient } from '../src/sdk/client.ts'
import { homeAt } from '../src/store/home.ts'
import { openSqliteStore } from '../src/store/sqlite/sqlite-store.ts'
import { connectSupervisor } from '../src/supervisor/connect-or-start.ts'

/** The command that measures each row again. */
export const COMMAND = 'npm run bench -- sandboxes'
const ROOT = join(import.meta.dirname, '..')
/** The published bundle, which `buildCraik` builds. */
const MAIN = join(ROOT, 'dist/src/main.cjs')
/** A user and group id that no account of the host has, for a bench that runs as root. */
export const HOST_USER = process.geteuid?.() === 0 ? { uid: 2_000_999_999, gid: 2_000_999_999 } : undefined
const GIB = 1024 ** 3
/** The disk has room for two copies of the largest file. */
export const LIMITS: LimitSpec = { memoryBytes: 2 * GIB, processes: 512, diskBytes: 4 * GIB }
const OPERATOR = 'local-user:bench'

export const never: AbortSignal = new AbortController().signal
export const jobId = (): JobId => newId<JobId>('job', Date.now())

/** A sandbox that is reachable only over its boundary. */
export interface BareScene extends AsyncDisposable {
  readonly id: SandboxId
  readonly boundary: Boundary
  /** The milliseconds until the greeting of its sidecar. */
  readonly startedMs: number
}

export type OpenScene = () => Promise<BareScene>

/** Prepares the parts that all sandbox instances share, as the first sandbox of a home does. */
export function bareScenes(home: string, isolation: Isolation = 'process'): OpenScene {
  const backend = processBackend({ craikHome: home, environment: process.env })
  return () => openScene(home, backend, { isolation, hostUser: isolation === 'none' ? undefined : HOST_USER })
}

/** Creates a sandbox whose sidecar connects to a socket of this process, as every sandbox on this host does. */
export async function openScene(
  home: string,
  backend: SandboxBackend,
  how: Pick<SandboxSpec, 'isolation' | 'hostUser' | 'container'>,
): Promise<BareScene> {
  const began = performance.now()
  const id = newId<SandboxId>('sbx', Date.now())
  const folder = join(home, 'sandboxes', id)
  mkdirSync(folder, { recursive: true, mode: 0o700 })
  const dialled = Promise.withResolvers<Socket>()
  const socket = await openHostSocket(join(folder, 'socket'), {
    onConnection: dialled.resolve,
    onRefused() {},
  })
  const instance = await backend.create({ id, folder, workspace: { mode: 'copy' }, limits: LIMITS, ...how })
  const onInbound = (stream: { destroy(): void }) => stream.destroy()
  const boundary = await connectBoundary(await dialled.promise, never, { onInbound })
  return {
    id,
    boundary,
    startedMs: performance.now() - began,
    async [Symbol.asyncDispose]() {
      await boundary.close()
      await socket.close()
      await instance.destroy()
    },
  }
}

/** The manager with a real store and its writer thread, in this process. */
export interface Managed extends AsyncDisposable {
  readonly manager: SupervisedSandboxes
  readonly caller: ManagerCaller
  readonly id: SandboxId
}

export async function openManaged(root: string): Promise<Managed> {
  const home = homeAt(root)
  const store = await openSqliteStore(home, new URL('../src/writer.ts', import.meta.url))
  const manager = createSandboxManager({
    store,
    log: createReceiptLog(store, systemClock),
    clock: systemClock,
    home,
    backends: { process: processBackend({ craikHome: root, environment: process.env }) },
    logger: (level, message) => level === 'info' || console.error(message),
    environment: process.env,
  })
  await createGrant(store, {
    capability: 'sandbox.create',
    subject: OPERATOR,
    scope: 'any',
    operations: ['create'],
    target: {},
    max_uses: 1,
    approved_by: OPERATOR,
    reason: 'a measurement',
  })
  const caller: ManagerCaller = { operator: OPERATOR, signal: never }
  const { id } = await manager.create(caller, {
    backend: 'process',
    isolation: 'process',
    workspace: { mode: 'copy' },
    limits: LIMITS,
    environment: {},
  })
  return {
    manager,
    caller,
    id,
    async [Symbol.asyncDispose]() {
      await manager.delete(caller, id)
      await manager.close()
      await store.close()
    },
  }
}

/** A home with its own supervisor, which runs the published bundle. */
export interface Supervised extends AsyncDisposable {
  readonly client: ApiClient
  /** Runs `craik …` and waits until it exits. */
  craik(...args: readonly string[]): string
  /** The parts of the command line, for rows that time the command alone. */
  readonly command: { readonly file: string; readonly main: string; readonly env: NodeJS.ProcessEnv }
}

export function buildCraik(): void {
  for (const script of ['scripts/build-sidecar.ts', 'scripts/build.ts'])
    run([join(ROOT, script)], process.env)
}

interface SupervisedOptions {
  readonly engine?: string
  /** The number of containers in the warm pool. */
  readonly warm?: number
  /** Additional variables for every command and for the supervisor. */
  readonly environment?: Readonly<Record<string, string>>
}

export async function openSupervised(
  root: string,
  folder: string,
  { engine, warm, environment }: SupervisedOptions = {},
): Promise<Supervised> {
  const named = engine === undefined ? {} : { CRAIK_ENGINE: engine }
  const env = { PATH: process.env.PATH!, HOME: folder, CRAIK_HOME: root, ...named, ...environment }
  const craik = (...args: readonly string[]) => run([MAIN, ...args], env)
  const grant = ['--capability', 'sandbox.create', '--operation', 'create', '--any-scope', '--unlimited-uses']
  craik('grant', 'create', ...grant, '--reason', 'a measurement')
  if (warm !== undefined) {
    mkdirSync(join(root, 'config'), { recursive: true, mode: 0o700 })
    writeFileSync(join(root, 'config/limits.yaml'), `warm: ${warm}\n`, { mode: 0o600 })
  }
  const deps = { home: homeAt(root), mainFile: MAIN, environment: env }
  const client = await connectSupervisor(deps)
  return {
    client,
    craik,
    command: { file: process.execPath, main: MAIN, env },
    async [Symbol.asyncDispose]() {
      for (const { id } of await client.sandboxes.list()) await client.sandboxes.delete(id)
      client.close()
      craik('supervisor', 'stop')
    },
  }
}

function run(args: readonly string[], env: NodeJS.ProcessEnv): string {
  const { status, stdout, stderr } = spawnSync(process.execPath, args, {
    env,
    encoding: 'utf8',
    stdio: ['ignore', 'pipe', 'pipe'],
  })
  if (status !== 0) throw new Error(`${args.join(' ')} exited ${status}: ${stderr}`)
  return stdout
}

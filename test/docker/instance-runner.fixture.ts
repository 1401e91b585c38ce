/**
 * Creates instances of the Docker backend in a home of its own: as root or as an ordinary user, with each transport.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import {
  chownSync,
  existsSync,
  globSync,
  mkdirSync,
  mkdtempSync,
  readFileSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { createInterface } from 'node:readline'
import { newId, type SandboxId } from '../../src/lib/ids.ts'
import type { ContainerSpec, HostUser, InstanceHandle, SandboxSpec } from '../../src/sandboxes/backend.ts'
import { type Engine, openEngine } from '../../src/sandboxes/backends/docker/engine/engine.ts'
import { NODE } from '../craik.ts'
import type { DriverRequest as AnyOrder } from '../instance-driver.fixture.ts'
import { USER_UID } from '../sandbox-home.ts'

const DRIVER = join(import.meta.dirname, '../instance-driver.fixture.ts')
const IS_ROOT = process.getuid?.() === 0
export const MIB = 1024 * 1024

export type Order = Omit<AnyOrder, 'backend'>

export interface Runner {
  readonly who: string
  readonly uid: number
  /** The user that its sandboxes run as. Without it, they run as the runner's own user. */
  readonly hostUser: HostUser | undefined
  readonly line: 'socket' | 'relay'
}

const USERS = [
  ...(IS_ROOT ? [{ who: 'root', uid: 0, hostUser: { uid: 2_100_012_345, gid: 2_100_012_345 } }] : []),
  // This user is in the group that can use the engine's socket.
  { who: 'an ordinary user', uid: USER_UID, hostUser: undefined },
]
/** For tests that do not depend on the transport. */
export const SOCKET_RUNNERS: readonly Runner[] = USERS.map((user) => ({ ...user, line: 'socket' }))
export const RUNNERS: readonly Runner[] = SOCKET_RUNNERS.flatMap((user) => [user, { ...user, line: 'relay' }])

export interface RunnerMessage {
  readonly planned?: ContainerSpec
  readonly handle?: InstanceHandle
  readonly limits?: unknown
  readonly hostUid?: number
  readonly out?: string
  readonly err?: string
  readonly exit?: number
  readonly observed?: Record<string, number>
  readonly error?: { readonly code: string; readonly message: string; readonly hint?: string }
  readonly gone?: boolean
  readonly paused?: boolean
  readonly waiting?: boolean
  readonly ended?: string
  readonly destroyed?: boolean
  readonly swept?: boolean
}

export class InstanceRunner implements AsyncDisposable {
  readonly engine: Engine
  readonly folder: string
  readonly craikHome: string
  readonly #runner: Runner
  readonly #made: SandboxSpec[] = []
  #container: ContainerSpec | undefined

  private constructor(engine: Engine, runner: Runner) {
    this.engine = engine
    this.#runner = runner
    this.folder = mkdtempSync(join(tmpdir(), 'craik-docker-'))
    this.craikHome = join(this.folder, 'home')
    this.own(this.folder)
    for (const path of [this.craikHome, join(this.craikHome, 'sandboxes')]) {
      mkdirSync(path, { mode: 0o700 })
      this.own(path)
    }
  }

  static async open(runner: Runner): Promise<InstanceRunner> {
    const opened = new InstanceRunner(await openEngine(process.env), runner)
    const { craikHome } = opened
    const [reported] = await opened.sendOrder({ verb: 'plan', craikHome, asked: { line: runner.line } })
    if (reported?.planned === undefined) throw new Error(`nothing is planned: ${JSON.stringify(reported)}`)
    opened.#container = reported.planned
    return opened
  }

  /** The container settings of its sandboxes. */
  get container(): ContainerSpec {
    return this.#container!
  }

  /** Gives a file to the user that it runs as. */
  own(path: string): void {
    if (IS_ROOT) chownSync(path, this.#runner.uid, this.#runner.uid)
  }

  specWith(changes: Partial<SandboxSpec> = {}): SandboxSpec {
    const id = newId<SandboxId>('sbx', Date.now())
    const spec: SandboxSpec = {
      id,
      isolation: 'container',
      folder: join(this.craikHome, 'sandboxes', id),
      workspace: { mode: 'copy' },
      limits: { memoryBytes: 512 * MIB, processes: 100, cpuMillis: 1500, diskBytes: 64 * MIB },
      hostUser: this.#runner.hostUser,
      container: this.container,
      ...changes,
    }
    this.#made.push(spec)
    return spec
  }

  /** Creates a project of the ordinary user. */
  workspace(name: string): { readonly path: string } & Pick<SandboxSpec, 'workspace' | 'hostUser'> {
    const path = join(this.folder, name)
    mkdirSync(path)
    execFileSync('git', ['init', '--quiet', path])
    writeFileSync(join(path, 'file.txt'), 'ours\n')
    if (IS_ROOT) execFileSync('chown', ['-R', `${USER_UID}:${USER_UID}`, path])
    const hostUser = this.#runner.uid === 0 ? { uid: USER_UID, gid: USER_UID } : undefined
    return { path, workspace: { mode: 'in-place', folder: path }, hostUser }
  }

  start(order: Order, environment: NodeJS.ProcessEnv = {}): ChildProcess {
    const { uid } = this.#runner
    return spawn(NODE, [DRIVER, JSON.stringify({ ...order, backend: 'docker' } satisfies AnyOrder)], {
      cwd: this.folder,
      env: {
        PATH: process.env.PATH,
        NODE_COMPILE_CACHE: process.env.NODE_COMPILE_CACHE,
        HOME: this.folder,
        CRAIK_ENGINE: this.engine.address,
        ...environment,
      },
      stdio: ['ignore', 'pipe', 'inherit'],
      ...(IS_ROOT && uid !== 0 && { uid, gid: uid }),
    })
  }

  /** Returns all messages of the driver, until it ends. */
  async sendOrder(order: Order, environment?: NodeJS.ProcessEnv): Promise<RunnerMessage[]> {
    const lines: RunnerMessage[] = []
    const { stdout } = this.start(order, environment)
    for await (const one of createInterface({ input: stdout! })) lines.push(JSON.parse(one))
    return lines
  }

  /** Starts the driver, and returns as soon as it waits. */
  async startAndWait(order: Order, environment?: NodeJS.ProcessEnv) {
    const driver = this.start({ ...order, finish: 'wait' }, environment)
    const lines: RunnerMessage[] = []
    const reader = createInterface({ input: driver.stdout! })[Symbol.asyncIterator]()
    for (;;) {
      const { value, done } = await reader.next()
      if (done) break
      lines.push(JSON.parse(value))
      if (lines.at(-1)?.waiting || lines.at(-1)?.error) break
    }
    const next = async (): Promise<RunnerMessage> => JSON.parse((await reader.next()).value ?? '{}')
    return { driver, lines, next }
  }

  /** Returns what the engine and the host still have of the sandbox. */
  async findLeftovers({ id, folder }: SandboxSpec): Promise<string[]> {
    const filters = { label: [`craik.sandbox=${id}`] }
    const containers = await this.engine.docker.listContainers({ all: true, filters })
    const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
    const loops = globSync('/sys/block/loop*/loop/backing_file').map(readIfThere)
    const stubs = join(folder, 'stubs.json')
    return [
      ...containers.map(({ Id }) => `container ${Id}`),
      ...mounts.filter((line) => line.includes(id)),
      ...loops.filter((path) => path.includes(id)),
      ...(existsSync(stubs) ? [stubs] : []),
    ]
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { craikHome } = this
    await this.sendOrder({ verb: 'clear', craikHome, specs: this.#made })
    rmSync(this.folder, { recursive: true, force: true })
  }
}

function readIfThere(path: string): string {
  try {
    return readFileSync(path, 'utf8')
  } catch {
    return ''
  }
}

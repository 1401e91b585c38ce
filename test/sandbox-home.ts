/** A home with real sandboxes, as root or as an ordinary user, that leaves nothing on the machine when it is disposed of. */
import { execFileSync } from 'node:child_process'
import {
  chmodSync,
  chownSync,
  existsSync,
  globSync,
  lchownSync,
  mkdirSync,
  mkdtempSync,
  readdirSync,
  readFileSync,
  renameSync,
  rmSync,
  writeFileSync,
} from 'node:fs'
import { tmpdir } from 'node:os'
import { dirname, join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { isListening } from '../src/lib/unix-socket.ts'
import { cacheOfHome } from '../src/lib/user-cache.ts'
import type { ExecBody, SandboxBody } from '../src/operator/api/bodies.ts'
import type { ExecRequestBody } from '../src/operator/api/requests.ts'
import { openEngine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import { type ApiClient, createClient } from '../src/sdk/client.ts'
import { nodeForAll } from './built-craik.ts'
import { builtMain, environmentOf, NODE, type Ran, type RunOptions, run, warmHome } from './craik.ts'
import { ofThisTier } from './tier.ts'

export type Identity = 'root' | 'user'

const OWN_UID = process.getuid?.() ?? -1
const IS_ROOT = OWN_UID === 0
/** Nobody's numbers on any machine that runs tests. */
export const USER_UID = IS_ROOT ? 12_345 : OWN_UID
export const FOREIGN_UID = 23_456

/** For the name of what is skipped where the tests do not run as root. */
export const ROOT_IS_NEEDED = IS_ROOT ? undefined : 'skipped: only root can be root'
/** `npm test` runs as an ordinary user, the matrix as root: see vitest.config.ts. */
export const IDENTITIES = ofThisTier<Identity>(['user'], ['root'])
/** For files of the matrix alone. */
export const EVERY_IDENTITY: readonly Identity[] = IS_ROOT ? ['user', 'root'] : ['user']
export const canBe = (identity: Identity): boolean => identity === 'user' || IS_ROOT

const EXEC_TIMEOUT_MS = 120_000
const GONE_DEADLINE_MS = 15_000
/** For each command that cleans up: after a test that stood still, what made it do so may still be there. */
const CLEANING = { timeoutMs: 60_000 }
const POLL_MS = 50

/** What its sandboxes are made of; without it, what a person gets who says nothing. */
export interface HomeInstance {
  readonly identity: Identity
  readonly backend?: 'process' | 'docker'
  /** Of containers; without it, as the engine can. */
  readonly line?: 'socket' | 'relay'
  /** The address of the engine; without it, the one that the environment names. */
  readonly engine?: string
  /** How many places may wait for a sandbox; without it none does, so that each test has the machine to itself. */
  readonly warm?: number
  /** Name of the Craik home in the user's home (default: `home`). */
  readonly homeName?: string
  /** Added to what `craik` is given of the environment, such as whom to trust. */
  readonly env?: Readonly<Record<string, string>>
}

export interface Ended {
  readonly outcome: ExecBody['outcome']
  readonly code: number | null
  readonly signal: string | null
  readonly stdout: string
  readonly stderr: string
}

export class LiveSandbox {
  readonly body: SandboxBody
  readonly #client: ApiClient

  constructor(body: SandboxBody, client: ApiClient) {
    this.body = body
    this.#client = client
  }

  get id(): string {
    return this.body.id
  }

  /** Runs a command to its end, by the same API as `craik sandbox exec`. */
  async exec(argv: readonly string[], options: Omit<ExecRequestBody, 'argv'> = {}): Promise<Ended> {
    const ended = await this.#client.sandboxes.exec(this.id, {
      argv: [...argv],
      timeout_ms: EXEC_TIMEOUT_MS,
      ...options,
    })
    const text = ({ data, encoding }: ExecBody['stdout']) => Buffer.from(data, encoding).toString()
    return {
      outcome: ended.outcome,
      code: ended.exit_code,
      signal: ended.signal,
      stdout: text(ended.stdout),
      stderr: text(ended.stderr) + (ended.error ?? ''),
    }
  }

  delete(): Promise<void> {
    return this.#client.sandboxes.delete(this.id)
  }
}

/** Where a home has the runtime of its sandboxes, and where the homes of one run leave theirs for the next. */
function runtimesOf(home: string, uid: number): { readonly own: string; readonly shared: string } {
  const own = join(cacheOfHome(home, { HOME: dirname(home) }), 'runtime')
  return { own, shared: join(process.env.CRAIK_TEST_RUN_FOLDER!, `runtime-${uid}`) }
}

/** By hard links: to copy Node and to fill its compile cache takes a second, and hundreds of homes need it. */
function takeRuntime(home: string, uid: number): void {
  const { own, shared } = runtimesOf(home, uid)
  if (!existsSync(shared)) return
  for (const folder of [dirname(dirname(own)), dirname(own)]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    chownSync(folder, uid, uid)
  }
  execFileSync('cp', ['-al', shared, own])
  if (uid !== OWN_UID) execFileSync('chown', ['-R', `${uid}:${uid}`, own])
}

function keepRuntime(home: string, uid: number): void {
  const { own, shared } = runtimesOf(home, uid)
  try {
    if (!existsSync(shared)) renameSync(own, shared)
  } catch {
    // It has none, or another home was first.
  }
}

export class SandboxHome implements AsyncDisposable {
  readonly identity: Identity
  /** What its sandboxes are, and how they are reached. */
  readonly kind: 'process' | 'container'
  readonly line: 'socket' | 'relay'
  readonly uid: number
  readonly folder: string
  readonly home: string
  readonly #node: string
  readonly #made: string[] = []
  readonly #containers: string[] = []
  readonly #createArguments: readonly string[]
  readonly #environment: Readonly<Record<string, string>>
  #client: ApiClient | undefined

  private constructor(instance: HomeInstance) {
    const {
      identity,
      backend,
      line,
      engine = process.env.CRAIK_ENGINE,
      warm = 0,
      homeName = 'home',
      env,
    } = instance
    this.identity = identity
    this.kind = backend === 'docker' ? 'container' : 'process'
    this.line = line ?? 'socket'
    this.#createArguments = [...(backend ? ['--backend', backend] : []), ...(line ? ['--line', line] : [])]
    this.#environment = { ...(this.kind === 'container' && engine && { CRAIK_ENGINE: engine }), ...env }
    this.uid = identity === 'root' ? 0 : USER_UID
    this.folder = mkdtempSync(join(tmpdir(), 'craik-test-'))
    this.home = join(this.folder, homeName)
    chownSync(this.folder, this.uid, this.uid)
    warmHome(this.home, this.uid)
    if (backend === 'docker') this.configure('limits.yaml', `warm: ${warm}\n`)
    else takeRuntime(this.home, this.uid)
    this.#node = OWN_UID === this.uid ? NODE : nodeForAll()
  }

  static async open(instance: HomeInstance): Promise<SandboxHome> {
    if (!canBe(instance.identity)) throw new Error(ROOT_IS_NEEDED)
    return new SandboxHome(instance)
  }

  /** What the engine calls those that were created here. */
  get containers(): readonly string[] {
    return this.#containers
  }

  /** How a process is started as this home's user. */
  get user(): { readonly uid?: number; readonly gid?: number } {
    return OWN_UID === this.uid ? {} : { uid: this.uid, gid: this.uid }
  }

  /** For tests that start it themselves: Node, and what it runs. */
  get program(): { readonly node: string; readonly main: string } {
    return { node: this.#node, main: builtMain() }
  }

  /** What `craik` is given of the environment. */
  get environment(): Readonly<Record<string, string>> {
    return { ...environmentOf(this), ...this.#environment }
  }

  /** Runs `craik …` to its end. */
  run(args: readonly string[], options: RunOptions = {}): Promise<Ran> {
    const { nodeArguments = [], env, ...others } = options
    return run(this.#node, [...nodeArguments, builtMain(), ...args], {
      cwd: this.folder,
      ...others,
      ...this.user,
      env: { ...this.environment, ...env },
    })
  }

  /** Runs it, expects success, and parses what it printed. */
  async json<T>(args: readonly string[], options: RunOptions = {}): Promise<T> {
    const { code, stdout, stderr } = await this.run(args, options)
    if (code !== 0) throw new Error(`craik ${args.join(' ')} exited ${code}: ${stderr}`)
    return JSON.parse(stdout) as T
  }

  /** A client of this home's supervisor, which is started as this home's user whenever there is none. */
  client(): ApiClient {
    this.#client ??= createClient({
      connect: async () => {
        const socketPath = join(this.home, 'run/craik.sock')
        if (!(await isListening(socketPath))) await this.json(['sandbox', 'list', '--format', 'json'])
        const token = readFileSync(join(this.home, 'run/token'), 'utf8').trim()
        return { socketPath, token }
      },
    })
    return this.#client
  }

  /** `craik sandbox create` of its kind, with these arguments, however it ends. */
  tryToCreate(args: readonly string[] = []): Promise<Ran> {
    return this.run(['sandbox', 'create', '--format', 'json', ...this.#createArguments, ...args])
  }

  /** The same, which is to succeed. */
  async create(args: readonly string[] = []): Promise<LiveSandbox> {
    const { code, stdout, stderr } = await this.tryToCreate(args)
    if (code !== 0) throw new Error(`craik sandbox create ${args.join(' ')} exited ${code}: ${stderr}`)
    const body = JSON.parse(stdout) as SandboxBody
    this.#made.push(body.id)
    if (this.kind === 'container') this.#containers.push(...(await this.#containersOf([body.id])))
    return new LiveSandbox(body, this.client())
  }

  /** One that a command other than `create` made: it is looked into and looked after like the others. */
  async adopt(id: string): Promise<void> {
    if (!this.#made.includes(id)) this.#made.push(id)
    if (this.kind !== 'container') return
    for (const container of await this.#containersOf([id]))
      if (!this.#containers.includes(container)) this.#containers.push(container)
  }

  path(...names: readonly string[]): string {
    return join(this.folder, ...names)
  }

  /** A folder of this home's user, or of another's, with these files in it. */
  workspace(name: string, files: Readonly<Record<string, string>> = {}, owner = USER_UID): string {
    const folder = this.path(name)
    mkdirSync(folder)
    chmodSync(folder, 0o755)
    for (const [file, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      writeFileSync(join(folder, file), content)
    }
    if (IS_ROOT) giveAll(folder, owner)
    return folder
  }

  /** One that the user may read and not write. */
  foreignWorkspace(name: string, files: Readonly<Record<string, string>>): string {
    return IS_ROOT ? this.workspace(name, files, FOREIGN_UID) : '/usr/share/common-licenses'
  }

  /** Writes a file of its configuration. */
  configure(file: string, content: string): void {
    const config = join(this.home, 'config')
    mkdirSync(config, { recursive: true, mode: 0o700 })
    writeFileSync(join(config, file), content, { mode: 0o600 })
    for (const path of [this.home, config, join(config, file)]) chownSync(path, this.uid, this.uid)
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const { code, stderr } = await this.run(['sandbox', 'delete', '--all', '--yes'], CLEANING)
    const failed = code === 0 ? [] : [stderr.trim()]
    this.#client?.close()
    await this.run(['supervisor', 'stop'], CLEANING)
    const left = [...failed, ...(await this.#leftovers())]
    if (this.kind === 'process') keepRuntime(this.home, this.uid)
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 })
    if (left.length > 0) throw new Error(`left behind by ${this.folder}: ${left.join('; ')}`)
  }

  /** What the machine, and its engine, still have of one of its sandboxes. */
  async findLeftovers(id: string): Promise<string[]> {
    return [...processesOf(id, []), ...tracesOf(id, [id]), ...(await this.#findEngineLeftovers([id]))]
  }

  async #findEngineLeftovers(ids: readonly string[]): Promise<string[]> {
    if (this.kind === 'process') return []
    const containers = await this.#containersOf(ids)
    return [...containers.map((id) => `container ${id}`), ...(await this.#volumesOf(ids))]
  }

  /** The engine's ids of what it holds of them. */
  async #containersOf(ids: readonly string[]): Promise<string[]> {
    const { docker } = await openEngine({ ...process.env, ...this.#environment })
    const all = await docker.listContainers({ all: true, filters: { label: ['craik.sandbox'] } })
    return all.filter(({ Labels }) => ids.includes(Labels['craik.sandbox']!)).map(({ Id }) => Id)
  }

  async #volumesOf(ids: readonly string[]): Promise<string[]> {
    const { docker } = await openEngine({ ...process.env, ...this.#environment })
    const { Volumes: volumes } = await docker.listVolumes()
    return (volumes ?? [])
      .filter(({ Labels }) => ids.includes(Labels?.['craik.sandbox'] ?? ''))
      .map(({ Name }) => `volume ${Name}`)
  }

  /** What is still there of it when it had time to go. */
  async #leftovers(): Promise<string[]> {
    const endsMs = performance.now() + GONE_DEADLINE_MS
    for (;;) {
      const left = [
        ...processesOf(this.folder, [...this.#made, ...this.#containers]),
        ...tracesOf(this.folder, [...this.#made, ...this.#containers]),
        ...(await this.#findEngineLeftovers(this.#made)),
      ]
      if (left.length === 0 || performance.now() > endsMs) return left
      await sleep(POLL_MS)
    }
  }
}

/** Processes whose command line or environment names the folder or one of its sandboxes. */
function processesOf(folder: string, ids: readonly string[]): string[] {
  const pids = readdirSync('/proc').filter((name) => /^\d+$/.test(name) && Number(name) !== process.pid)
  return pids.flatMap((pid) => {
    const command = readIfThere(`/proc/${pid}/cmdline`).replaceAll('\0', ' ').trim()
    const all = `${command} ${readIfThere(`/proc/${pid}/environ`)}`
    const isOurs = [folder, ...ids].some((name) => all.includes(name))
    return isOurs ? [`process ${pid}: ${command.slice(0, 200)}`] : []
  })
}

function tracesOf(folder: string, ids: readonly string[]): string[] {
  const names = [folder, ...ids]
  const mounts = readFileSync('/proc/self/mountinfo', 'utf8').split('\n')
  const loops = globSync('/sys/block/loop*/loop/backing_file').map(readIfThere)
  return [
    ...mounts.filter((line) => names.some((name) => line.includes(name))).map((line) => `mount ${line}`),
    ...loops.filter((file) => file.includes(folder)).map((file) => `loop device of ${file.trim()}`),
    ...ids.flatMap((id) => globSync(`/sys/fs/cgroup/{,*/}*/${id}`)).map((path) => `cgroup ${path}`),
  ]
}

function giveAll(path: string, uid: number): void {
  lchownSync(path, uid, uid)
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const inner = join(path, entry.name)
    if (entry.isDirectory()) giveAll(inner, uid)
    else lchownSync(inner, uid, uid)
  }
}

function readIfThere(path: string): string {
  try {
    return existsSync(path) ? readFileSync(path, 'latin1') : ''
  } catch {
    return ''
  }
}

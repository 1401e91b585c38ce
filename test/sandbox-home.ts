/** A home with real sandboxes, as root or as an ordinary user. Its disposal fails when anything is left on the host. */
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
import {
  builtMain,
  type CommandResult,
  environmentOf,
  linkCompileCache,
  NODE,
  type RunOptions,
  run,
} from './craik.ts'
import { valuesOfTier } from './tier.ts'

export type Identity = 'root' | 'user'

const OWN_UID = process.getuid?.() ?? -1
const IS_ROOT = OWN_UID === 0
/** User ids that no account of a test host has. */
export const USER_UID = IS_ROOT ? 12_345 : OWN_UID
export const FOREIGN_UID = 23_456

/** A part of the name of tests that are skipped without root. */
export const ROOT_IS_NEEDED = IS_ROOT ? undefined : 'skipped: only root can be root'
/** `npm test` uses an ordinary user, and the matrix uses root: see vitest.config.ts. */
export const IDENTITIES = valuesOfTier<Identity>(['user'], ['root'])
/** For test files that run only in the matrix. */
export const EVERY_IDENTITY: readonly Identity[] = IS_ROOT ? ['user', 'root'] : ['user']
export const canBe = (identity: Identity): boolean => identity === 'user' || IS_ROOT

const EXEC_TIMEOUT_MS = 120_000
const GONE_DEADLINE_MS = 15_000
/** For each command that cleans up. After a test that hung, the cause may still exist. */
const CLEANING = { timeoutMs: 60_000 }
const POLL_MS = 50

/** The kind of a home's sandboxes. The defaults are those of a user who sets no option. */
export interface HomeInstance {
  readonly identity: Identity
  readonly backend?: 'process' | 'docker'
  /** The transport of containers (default: as the engine supports). */
  readonly line?: 'socket' | 'relay'
  /** The address of the engine (default: that of the environment). */
  readonly engine?: string
  /** The size of the warm pool. The default is 0, so that each test has the host to itself. */
  readonly warm?: number
  /** The name of the Craik home in the user's home folder (default: `home`). */
  readonly homeName?: string
  /** Added to the environment of `craik`, such as certificates to trust. */
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

  /** Runs a command and waits for its end, with the same API as `craik sandbox exec`. */
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

/** Returns the folder of a home's sandbox runtime, and the folder in which the homes of one run share a runtime. */
function runtimesOf(home: string, uid: number): { readonly own: string; readonly shared: string } {
  const own = join(cacheOfHome(home, { HOME: dirname(home) }), 'runtime')
  return { own, shared: join(process.env.CRAIK_TEST_RUN_FOLDER!, `runtime-${uid}`) }
}

/**
 * Uses hard links, because copying Node and filling its compile cache takes a second, and hundreds of homes need both.
 */
function linkRuntime(home: string, uid: number): void {
  const { own, shared } = runtimesOf(home, uid)
  if (!existsSync(shared)) return
  for (const folder of [dirname(dirname(own)), dirname(own)]) {
    mkdirSync(folder, { recursive: true, mode: 0o700 })
    chownSync(folder, uid, uid)
  }
  execFileSync('cp', ['-al', shared, own])
  if (uid !== OWN_UID) execFileSync('chown', ['-R', `${uid}:${uid}`, own])
}

function shareRuntime(home: string, uid: number): void {
  const { own, shared } = runtimesOf(home, uid)
  try {
    if (!existsSync(shared)) renameSync(own, shared)
  } catch {
    // The home has no runtime, or another home shared one first.
  }
}

export class SandboxHome implements AsyncDisposable {
  readonly identity: Identity
  /** The kind of its sandboxes, and their transport. */
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
    linkCompileCache(this.home, this.uid)
    if (backend === 'docker') this.configure('limits.yaml', `warm: ${warm}\n`)
    else linkRuntime(this.home, this.uid)
    this.#node = OWN_UID === this.uid ? NODE : nodeForAll()
  }

  static async open(instance: HomeInstance): Promise<SandboxHome> {
    if (!canBe(instance.identity)) throw new Error(ROOT_IS_NEEDED)
    return new SandboxHome(instance)
  }

  /** The engine's ids of the containers that were created here. */
  get containers(): readonly string[] {
    return this.#containers
  }

  /** The options to start a process as this home's user. */
  get user(): { readonly uid?: number; readonly gid?: number } {
    return OWN_UID === this.uid ? {} : { uid: this.uid, gid: this.uid }
  }

  /** For tests that start it themselves: Node, and the file that it runs. */
  get program(): { readonly node: string; readonly main: string } {
    return { node: this.#node, main: builtMain() }
  }

  /** The environment of `craik`. */
  get environment(): Readonly<Record<string, string>> {
    return { ...environmentOf(this), ...this.#environment }
  }

  /** Runs `craik …` and waits until it exits. */
  run(args: readonly string[], options: RunOptions = {}): Promise<CommandResult> {
    const { nodeArguments = [], env, ...others } = options
    return run(this.#node, [...nodeArguments, builtMain(), ...args], {
      cwd: this.folder,
      ...others,
      ...this.user,
      env: { ...this.environment, ...env },
    })
  }

  /** Runs the command, expects success, and parses its output. */
  async json<T>(args: readonly string[], options: RunOptions = {}): Promise<T> {
    const { code, stdout, stderr } = await this.run(args, options)
    if (code !== 0) throw new Error(`craik ${args.join(' ')} exited ${code}: ${stderr}`)
    return JSON.parse(stdout) as T
  }

  /** Returns a client of this home's supervisor. When none runs, the client starts one as this home's user. */
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

  /**
   * Runs `craik sandbox create` for this kind of sandbox with these arguments, and returns its result even if it fails.
   */
  tryToCreate(args: readonly string[] = []): Promise<CommandResult> {
    return this.run(['sandbox', 'create', '--format', 'json', ...this.#createArguments, ...args])
  }

  /** Creates a sandbox and expects success. */
  async create(args: readonly string[] = []): Promise<LiveSandbox> {
    const { code, stdout, stderr } = await this.tryToCreate(args)
    if (code !== 0) throw new Error(`craik sandbox create ${args.join(' ')} exited ${code}: ${stderr}`)
    const body = JSON.parse(stdout) as SandboxBody
    this.#made.push(body.id)
    if (this.kind === 'container') this.#containers.push(...(await this.#containersOf([body.id])))
    return new LiveSandbox(body, this.client())
  }

  /** Registers a sandbox that a command other than `create` created, so that the disposal also checks it. */
  async adopt(id: string): Promise<void> {
    if (!this.#made.includes(id)) this.#made.push(id)
    if (this.kind !== 'container') return
    for (const container of await this.#containersOf([id]))
      if (!this.#containers.includes(container)) this.#containers.push(container)
  }

  path(...names: readonly string[]): string {
    return join(this.folder, ...names)
  }

  /** Creates a folder of this home's user or of another one, with these files. */
  workspace(name: string, files: Readonly<Record<string, string>> = {}, owner = USER_UID): string {
    const folder = this.path(name)
    mkdirSync(folder)
    chmodSync(folder, 0o755)
    for (const [file, content] of Object.entries(files)) {
      mkdirSync(dirname(join(folder, file)), { recursive: true })
      writeFileSync(join(folder, file), content)
    }
    if (IS_ROOT) chownTree(folder, owner)
    return folder
  }

  /** Returns a folder that the user can read but not write. */
  foreignWorkspace(name: string, files: Readonly<Record<string, string>>): string {
    return IS_ROOT ? this.workspace(name, files, FOREIGN_UID) : '/usr/share/common-licenses'
  }

  /** Writes a configuration file. */
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
    if (this.kind === 'process') shareRuntime(this.home, this.uid)
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 })
    if (left.length > 0) throw new Error(`left behind by ${this.folder}: ${left.join('; ')}`)
  }

  /** Returns what the host and its engine still have of one sandbox. */
  async findLeftovers(id: string): Promise<string[]> {
    return [...processesOf(id, []), ...tracesOf(id, [id]), ...(await this.#findEngineLeftovers([id]))]
  }

  async #findEngineLeftovers(ids: readonly string[]): Promise<string[]> {
    if (this.kind === 'process') return []
    const containers = await this.#containersOf(ids)
    return [...containers.map((id) => `container ${id}`), ...(await this.#volumesOf(ids))]
  }

  /** Returns the engine's ids of the containers of these sandboxes. */
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

  /** Returns what is still left after a deadline. */
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

/** Returns the processes whose command line or environment contains the folder or the id of a sandbox. */
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

function chownTree(path: string, uid: number): void {
  lchownSync(path, uid, uid)
  for (const entry of readdirSync(path, { withFileTypes: true })) {
    const inner = join(path, entry.name)
    if (entry.isDirectory()) chownTree(inner, uid)
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

/**
 * A separate container engine for the tests, with its own socket, data and group. Its disposal leaves nothing on the
 * host.
 */
import { type ChildProcess, spawn } from 'node:child_process'
import { once } from 'node:events'
import { chmodSync, closeSync, globSync, mkdtempSync, openSync, readFileSync, rmSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findRootProgram } from '../src/lib/host-programs.ts'
import { openEngine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import { SYSTEM_PATH } from '../src/sandboxes/backends/process/required-programs.ts'
import { killAll, processesIn, processesNaming, removeTree, unmountBelow } from './engine-traces.ts'
import { USER_UID } from './sandbox-home.ts'

const START_DEADLINE_MS = 60_000
const STOP_DEADLINE_MS = 30_000
const POLL_MS = 50

/** Returns why no engine can be started here. `undefined` when one can. */
export function whyNoOwnEngine(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'only root can start an engine'
  return findRootProgram('dockerd', SYSTEM_PATH) ? undefined : 'docker.io is not installed'
}

export class TestEngine implements AsyncDisposable {
  readonly folder: string
  readonly address: string
  readonly #cgroup: string
  readonly #options: readonly string[]
  #process: ChildProcess | undefined

  private constructor(options: readonly string[]) {
    this.#options = options
    this.folder = mkdtempSync(join(tmpdir(), 'craik-engine-'))
    // The tests' ordinary user is in the engine's group, and must be able to reach its socket.
    chmodSync(this.folder, 0o711)
    this.address = `unix://${join(this.folder, 'docker.sock')}`
    this.#cgroup = `craik-engine-${this.folder.slice(-6)}`
  }

  /** `options` are additional arguments of dockerd. */
  static async start(options: readonly string[] = []): Promise<TestEngine> {
    const reason = whyNoOwnEngine()
    if (reason !== undefined) throw new Error(reason)
    const engine = new TestEngine(options)
    try {
      await engine.start()
      return engine
    } catch (error) {
      await engine[Symbol.asyncDispose]()
      throw error
    }
  }

  get pid(): number | undefined {
    return this.#process?.pid
  }

  /** The parent cgroups of all its containers, one in each hierarchy. */
  get cgroups(): readonly string[] {
    return globSync(`/sys/fs/cgroup/{,*/}${this.#cgroup}`)
  }

  /** Starts the engine, or starts it again with the same data. `options` apply to this start only. */
  async start(options: readonly string[] = []): Promise<void> {
    const at = (name: string) => join(this.folder, name)
    const log = openSync(at('log'), 'a')
    const program = findRootProgram('dockerd', SYSTEM_PATH)!
    const child = spawn(
      program,
      [
        '--host',
        this.address,
        '--group',
        String(USER_UID),
        '--data-root',
        at('data'),
        '--exec-root',
        at('exec'),
        '--pidfile',
        at('pid'),
        '--bridge=none',
        '--iptables=false',
        '--ip6tables=false',
        '--cgroup-parent',
        `/${this.#cgroup}`,
        '--shutdown-timeout=5',
        ...this.#options,
        ...options,
      ],
      { stdio: ['ignore', log, log], detached: true, env: { PATH: SYSTEM_PATH, HOME: this.folder } },
    )
    closeSync(log)
    this.#process = child
    await once(child, 'spawn')
    await this.#answers(child)
  }

  /**
   * Kills the engine. Its containerd ends with it, because it asked the kernel for that. The processes of its
   * containers stay, as after a crash.
   */
  async kill(): Promise<void> {
    await this.#end('SIGKILL')
    const helper = join(this.folder, 'exec/containerd')
    await killAll(() => processesNaming(`${helper}/containerd.toml`))
    // Without a reaper, a new engine that reads this file would take the dead containerd for a running one.
    rmSync(join(helper, 'containerd.pid'), { force: true })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    await this.#end('SIGTERM')
    await this.#sweep()
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 })
  }

  async #answers(child: ChildProcess): Promise<void> {
    const until = performance.now() + START_DEADLINE_MS
    for (;;) {
      try {
        await openEngine({ CRAIK_ENGINE: this.address })
        return
      } catch (error) {
        if (child.exitCode === null && child.signalCode === null && performance.now() < until) {
          await sleep(POLL_MS)
          continue
        }
        const log = readFileSync(join(this.folder, 'log'), 'utf8').slice(-2000)
        throw new Error(`the engine did not start: ${log}`, { cause: error })
      }
    }
  }

  async #end(signal: NodeJS.Signals): Promise<void> {
    const child = this.#process
    this.#process = undefined
    if (child?.pid === undefined || child.exitCode !== null || child.signalCode !== null) return
    const exited = once(child, 'exit')
    child.kill(signal)
    const timer = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS)
    await exited
    clearTimeout(timer)
  }

  /** Removes what a crash left: processes of its containers, their mounts and their cgroups. */
  async #sweep(): Promise<void> {
    await killAll(() => [...processesNaming(`${this.folder}/`), ...this.listProcesses()])
    unmountBelow(this.folder)
    for (const path of this.cgroups) removeTree(path)
  }

  /** Returns the processes in its containers, as the kernel lists them. */
  listProcesses(): number[] {
    return processesIn(this.cgroups)
  }
}

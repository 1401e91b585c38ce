/**
 * A separate Podman for the tests, behind a socket that speaks Docker's API, with its own folders. Its disposal leaves
 * nothing on the host.
 */
import { type ChildProcess, execFileSync, spawn } from 'node:child_process'
import { once } from 'node:events'
import { closeSync, globSync, mkdtempSync, openSync, readFileSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { findRootProgram } from '../src/lib/host-programs.ts'
import { type Engine, openEngine } from '../src/sandboxes/backends/docker/engine/engine.ts'
import { SYSTEM_PATH } from '../src/sandboxes/backends/process/required-programs.ts'
import { killAll, processesNaming, removeTree, unmountBelow } from './engine-traces.ts'

const START_DEADLINE_MS = 60_000
const STOP_DEADLINE_MS = 30_000
const CLEAR_DEADLINE_MS = 60_000
const POLL_MS = 50
/** Every Podman of the host creates the cgroups of its containers here. */
const CGROUPS = '/sys/fs/cgroup/{,*/}libpod_parent'

/**
 * Keeps the locks in files of its own folder instead of memory that all Podmans share. Uses runc, because Debian's
 * default runtime refuses a host with both kinds of cgroups.
 */
const CONFIGURATION = `
[engine]
cgroup_manager = "cgroupfs"
events_logger = "file"
lock_type = "file"
runtime = "runc"
`

/** Returns why no Podman can be started here. `undefined` when one can. */
export function whyNoPodman(): string | undefined {
  if (process.platform !== 'linux' || process.getuid?.() !== 0) return 'only root can start Podman for root'
  const missing = ['podman', 'runc'].find((name) => !findRootProgram(name, SYSTEM_PATH))
  return missing && `${missing} is not installed`
}

export class TestPodman implements AsyncDisposable {
  readonly folder = mkdtempSync(join(tmpdir(), 'craik-podman-'))
  readonly address = `unix://${join(this.folder, 'podman.sock')}`
  readonly #hadCgroups = globSync(CGROUPS)
  #process: ChildProcess | undefined

  static async start(environment: Readonly<Record<string, string>> = {}): Promise<TestPodman> {
    const podman = new TestPodman()
    try {
      await podman.#start(environment)
      return podman
    } catch (error) {
      await podman[Symbol.asyncDispose]()
      throw error
    }
  }

  open(): Promise<Engine> {
    return openEngine({ CRAIK_ENGINE: this.address })
  }

  async [Symbol.asyncDispose](): Promise<void> {
    const child = this.#process
    if (child?.pid !== undefined && child.exitCode === null && child.signalCode === null) {
      this.#run(['rm', '--all', '--force', '--time', '0'])
      const exited = once(child, 'exit')
      child.kill('SIGTERM')
      const timer = setTimeout(() => child.kill('SIGKILL'), STOP_DEADLINE_MS)
      await exited
      clearTimeout(timer)
    }
    await killAll(() => processesNaming(`${this.folder}/`))
    unmountBelow(this.folder)
    rmSync(this.folder, { recursive: true, force: true, maxRetries: 5 })
    for (const path of globSync(CGROUPS)) if (!this.#hadCgroups.includes(path)) removeTree(path)
  }

  /** Hides the host's own configuration. */
  get #environment(): NodeJS.ProcessEnv {
    return { PATH: SYSTEM_PATH, HOME: this.folder, CONTAINERS_CONF: join(this.folder, 'containers.conf') }
  }

  get #options(): string[] {
    const at = (name: string) => join(this.folder, name)
    return [
      '--root',
      at('root'),
      '--runroot',
      at('run'),
      '--tmpdir',
      at('tmp'),
      '--storage-driver',
      'overlay',
      '--network-config-dir',
      at('networks'),
    ]
  }

  async #start(environment: Readonly<Record<string, string>>): Promise<void> {
    writeFileSync(join(this.folder, 'containers.conf'), CONFIGURATION)
    const log = openSync(join(this.folder, 'log'), 'a')
    const program = findRootProgram('podman', SYSTEM_PATH)!
    const child = spawn(program, [...this.#options, 'system', 'service', '--time=0', this.address], {
      stdio: ['ignore', log, log],
      detached: true,
      // When memory runs out, Podman's monitors leave a file in the folder in which they were started.
      cwd: this.folder,
      env: { ...this.#environment, ...environment },
    })
    closeSync(log)
    this.#process = child
    await once(child, 'spawn')
    const until = performance.now() + START_DEADLINE_MS
    for (;;) {
      try {
        await this.open()
        return
      } catch (cause) {
        if (child.exitCode !== null || child.signalCode !== null || performance.now() > until)
          throw new Error(`Podman did not start: ${this.log()}`, { cause })
        await sleep(POLL_MS)
      }
    }
  }

  /** Returns the end of the log. */
  log(): string {
    return readFileSync(join(this.folder, 'log'), 'utf8').slice(-2000)
  }

  #run(args: readonly string[]): void {
    execFileSync(findRootProgram('podman', SYSTEM_PATH)!, [...this.#options, ...args], {
      cwd: this.folder,
      env: this.#environment,
      stdio: 'ignore',
      timeout: CLEAR_DEADLINE_MS,
    })
  }
}

/**
 * One sandbox from creation to deletion, with random steps between, while the supervisor, sidecars and the engine are
 * killed.
 */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../src/errors.ts'
import { newId } from '../../src/lib/ids.ts'
import type { SandboxBody } from '../../src/operator/api/bodies.ts'
import type { ApiClient } from '../../src/sdk/client.ts'
import type { SandboxHome } from '../sandbox-home.ts'
import { craik, requireTyped, withDeadline } from './docker-commands.ts'
import { type KillSchedule, TARGETS } from './docker-kills.ts'
import type { Random } from './supervisor-kill.ts'

export interface World {
  readonly home: SandboxHome
  readonly client: ApiClient
  readonly strikes: KillSchedule
  /** The number of failures, by operation and error code. */
  readonly failures: Map<string, number>
}

/** The share of operations during which something is killed. */
const KILL_SHARE = 0.4
/** The share of operations that use the command line. */
const CLI_SHARE = 0.25
/** Slightly more than the duration of each operation. The kill happens within this time. */
const SPAN_MS = {
  create: 1_500,
  write: 200,
  copy: 1_000,
  stop: 700,
  resume: 1_300,
  pause: 250,
  snapshot: 700,
  restore: 1_800,
  fork: 2_500,
  delete: 900,
}
type Verb = keyof typeof SPAN_MS
/** Much longer than the longest pause between two attempts to reconnect to a sandbox. */
const RECOVERY_LIMIT_MS = 150_000
const POLL_MS = 200
const AT_REST: readonly string[] = ['running', 'paused', 'stopped', 'lost']
/** The operations to try in each state, so that most of them can succeed. */
const STEPS: Readonly<Record<string, readonly Verb[]>> = {
  running: ['write', 'write', 'copy', 'stop', 'pause', 'snapshot', 'restore', 'fork'],
  paused: ['resume', 'resume', 'snapshot', 'stop'],
  stopped: ['resume', 'resume', 'snapshot', 'restore', 'fork'],
  lost: ['resume', 'restore', 'stop'],
}

export class SandboxLifecycle {
  readonly name: string
  readonly #world: World
  readonly #random: Random
  /** The possible contents of its file. There are several after an operation with an unknown result. */
  #contents = new Set<string>()
  readonly #retained = new Map<string, ReadonlySet<string>>()
  #step = 0

  constructor(world: World, name: string, random: Random) {
    this.#world = world
    this.name = name
    this.#random = random
  }

  async live(steps: number): Promise<void> {
    await this.#create()
    await this.#write()
    await this.#requireUsable(this.name)
    for (let done = 0; done < steps; done++) {
      const { state } = await this.#waitUntilIdle(this.name)
      const verbs = STEPS[state]!.filter((verb) => verb !== 'restore' || this.#retained.size > 0)
      const failed = await this.#do(verbs[Math.floor(this.#random() * verbs.length)]!)
      if (failed) await this.#requireUsable(this.name)
    }
    await this.#requireUsable(this.name)
    await this.#remove(this.name)
    for (const name of this.#retained.keys())
      await this.#retry('delete a snapshot', () =>
        unlessGone(withDeadline((signal) => this.#world.client.snapshots.delete(name, { signal }))),
      )
  }

  /** Returns whether the operation failed. */
  async #do(verb: Verb): Promise<boolean> {
    const { client } = this.#world
    switch (verb) {
      case 'write':
        return this.#write()
      case 'copy':
        return this.#copy()
      case 'snapshot':
        return this.#snapshot()
      case 'restore':
        return this.#restore()
      case 'fork':
        return this.#fork()
      case 'stop':
      case 'resume':
      case 'pause':
        return this.#runWithKill(verb, () =>
          this.#runByCliOrClient(['sandbox', verb, this.name], (signal) =>
            verb === 'stop'
              ? client.sandboxes.stop(this.name, {}, { signal })
              : client.sandboxes[verb](this.name, { signal }),
          ),
        )
      default:
        throw new Error(`${verb} is no step`)
    }
  }

  async #create(): Promise<void> {
    // With its own memory limit, a sandbox never comes from the warm pool.
    const memory = this.#random() < 0.5 ? undefined : 600 + Math.floor(this.#random() * 200)
    const line = this.#random() < 0.7 ? 'socket' : 'relay'
    const typed = ['--backend', 'docker', '--line', line, ...(memory ? ['--memory', `${memory}m`] : [])]
    for (;;) {
      await this.#runWithKill('create', () =>
        this.#runByCliOrClient(['sandbox', 'create', '--name', this.name, ...typed], (signal) =>
          this.#world.client.sandboxes.create(
            {
              name: this.name,
              backend: 'docker',
              workspace: { mode: 'copy' },
              environment: {},
              network: 'none',
              mounts: [],
              container: { image: 'craik', line },
              ...(memory && { limits: { memory_bytes: memory * 1024 ** 2 } }),
            },
            { signal },
          ),
        ),
      )
      if ((await this.#findSandbox(this.name)) !== undefined) return
      await this.#world.strikes.waitForEngine()
    }
  }

  async #write(): Promise<boolean> {
    const text = `${this.name}.${++this.#step}`
    const before = this.#contents
    this.#contents = new Set([...before, text])
    const script = `printf ${text} > next && mv next value && cat value`
    return this.#runWithKill('write', async () => {
      const output = await this.#runByCliOrClient(
        ['sandbox', 'exec', this.name, '--no-stdin', '--', 'sh', '-c', script],
        (signal) => this.#execScript(this.name, script, signal),
      )
      if (output !== text) throw new Error(`${text} was written, and ${output} was read`)
      this.#contents = new Set([text])
    })
  }

  /** Copies some bytes into the sandbox and out again. */
  async #copy(): Promise<boolean> {
    const { home } = this.#world
    const [sent, received] = [home.path(`${this.name}.sent`), home.path(`${this.name}.received`)]
    const bytes = Buffer.alloc(Math.floor(this.#random() * 3_000_000), this.name)
    writeFileSync(sent, bytes, { mode: 0o644 })
    try {
      return await this.#runWithKill('copy', async () => {
        await craik(home, ['sandbox', 'cp', sent, `${this.name}:copied`])
        await craik(home, ['sandbox', 'cp', `${this.name}:copied`, received])
        if (!readFileSync(received).equals(bytes)) throw new Error('a copy came back as something else')
      })
    } finally {
      for (const path of [sent, received]) rmSync(path, { force: true })
    }
  }

  async #snapshot(): Promise<boolean> {
    const name = `${this.name}-s${++this.#step}`
    const failed = await this.#runWithKill('snapshot', () =>
      this.#runByCliOrClient(['sandbox', 'snapshot', this.name, '--name', name], (signal) =>
        this.#world.client.snapshots.make(this.name, { name }, { signal }),
      ),
    )
    if (!failed) this.#retained.set(name, new Set(this.#contents))
    if (!failed) return false
    await this.#waitUntilIdle(this.name)
    const all = await this.#retry('list snapshots', () =>
      withDeadline((signal) => this.#world.client.snapshots.list({ signal })),
    )
    if (all.some((one) => one.name === name)) this.#retained.set(name, new Set(this.#contents))
    return true
  }

  async #restore(): Promise<boolean> {
    const all = [...this.#retained]
    const [name, contents] = all[Math.floor(this.#random() * all.length)]!
    const before = this.#contents
    this.#contents = new Set([...before, ...contents])
    const failed = await this.#runWithKill('restore', () =>
      this.#runByCliOrClient(['sandbox', 'restore', this.name, name], (signal) =>
        this.#world.client.snapshots.restore(this.name, name, { signal }),
      ),
    )
    if (!failed) this.#contents = new Set(contents)
    return failed
  }

  /** The fork has the same content, and is deleted again. */
  async #fork(): Promise<boolean> {
    const name = `${this.name}-f${++this.#step}`
    const failed = await this.#runWithKill('fork', () =>
      this.#runByCliOrClient(['sandbox', 'fork', this.name, '--name', name], (signal) =>
        this.#world.client.snapshots.fork(this.name, { name }, { signal }),
      ),
    )
    if ((await this.#findSandbox(name)) !== undefined) {
      await this.#requireUsable(name)
      await this.#remove(name)
    } else if (!failed) throw new Error(`${name} was made, and is not there`)
    return failed
  }

  async #remove(name: string): Promise<void> {
    const { client } = this.#world
    await this.#runWithKill('delete', () =>
      this.#runByCliOrClient(['sandbox', 'delete', '--yes', name], (signal) =>
        client.sandboxes.delete(name, { signal }),
      ),
    )
    await this.#retry('delete', () =>
      unlessGone(withDeadline((signal) => client.sandboxes.delete(name, { signal }))),
    )
  }

  /** Checks that the sandbox runs or can be resumed, and that its file has a possible content. */
  async #requireUsable(name: string): Promise<void> {
    const { client } = this.#world
    const output = await this.#retry('use', async () => {
      await withDeadline((signal) => client.sandboxes.resume(name, { signal }))
      return withDeadline((signal) => this.#execScript(name, 'if [ -e value ]; then cat value; fi', signal))
    })
    const isOf = this.#contents.has(output) || (output === '' && this.#step === 1)
    if (!isOf) throw new Error(`${name} holds ${output}, and not ${[...this.#contents].join(' or ')}`)
    if (name === this.name) this.#contents = new Set([output])
  }

  async #execScript(name: string, script: string, signal: AbortSignal): Promise<string> {
    const job_id = newId('job', Date.now())
    const argv = ['sh', '-c', script]
    const ran = await this.#world.client.sandboxes.exec(name, { argv, job_id }, { signal })
    if (ran.exit_code !== 0) throw new Error(`${script} in ${name}: ${JSON.stringify(ran)}`)
    return ran.stdout.data
  }

  /** Uses the command line or the client, which give the same answers. */
  async #runByCliOrClient<T>(
    typed: readonly string[],
    requested: (signal: AbortSignal) => Promise<T>,
  ): Promise<T | string> {
    return this.#random() < CLI_SHARE ? craik(this.#world.home, typed) : withDeadline(requested)
  }

  /** Does the work, sometimes while something is killed. Returns whether the work failed. */
  async #runWithKill(verb: Verb, work: () => Promise<unknown>): Promise<boolean> {
    const { strikes, failures } = this.#world
    const target =
      this.#random() < KILL_SHARE ? TARGETS[Math.floor(this.#random() * TARGETS.length)] : undefined
    const afterMs = this.#random() ** 2 * SPAN_MS[verb]
    const striking = target && strikes.kill(target, afterMs)
    try {
      await work()
      return false
    } catch (error) {
      const key = `${verb} ${requireTyped(error, `${verb} of ${this.name}`)}`
      failures.set(key, (failures.get(key) ?? 0) + 1)
      return true
    } finally {
      await striking
    }
  }

  /**
   * Repeats the work until it succeeds. Work that fails because of a kill, also by another sandbox, succeeds again
   * without help.
   */
  async #retry<T>(what: string, work: () => Promise<T>): Promise<T> {
    const endsMs = performance.now() + RECOVERY_LIMIT_MS
    for (;;) {
      await this.#world.strikes.waitForEngine()
      try {
        return await work()
      } catch (error) {
        requireTyped(error, `${what} ${this.name}`)
        if (performance.now() > endsMs)
          throw new Error(`${what} ${this.name} fails again and again`, { cause: error })
      }
      await sleep(POLL_MS)
    }
  }

  async #waitUntilIdle(name: string): Promise<SandboxBody> {
    const found = await this.#findSandbox(name)
    if (found === undefined) throw new Error(`${name} is gone`)
    return found
  }

  /** Returns the sandbox when no operation on it is in progress, or `undefined` if it does not exist. */
  #findSandbox(name: string): Promise<SandboxBody | undefined> {
    return this.#retry('wait for', async () => {
      try {
        const body = await withDeadline((signal) => this.#world.client.sandboxes.get(name, { signal }))
        if (AT_REST.includes(body.state)) return body
        throw new CraikError('conflict', `it is ${body.state}: ${body.notice}`)
      } catch (error) {
        if (error instanceof CraikError && error.code === 'not_found') return undefined
        throw error
      }
    })
  }
}

async function unlessGone(work: Promise<unknown>): Promise<void> {
  try {
    await work
  } catch (error) {
    if (!(error instanceof CraikError && error.code === 'not_found')) throw error
  }
}

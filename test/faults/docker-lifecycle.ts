/** One sandbox from its creation to its end, with anything in between, while supervisor, sidecars and engine are killed. */
import { readFileSync, rmSync, writeFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { CraikError } from '../../src/errors.ts'
import { newId } from '../../src/lib/ids.ts'
import type { SandboxBody } from '../../src/operator/api/bodies.ts'
import type { ApiClient } from '../../src/sdk/client.ts'
import type { SandboxHome } from '../sandbox-home.ts'
import { craik, requireTyped, within } from './docker-commands.ts'
import { type KillSchedule, TARGETS } from './docker-kills.ts'
import type { Random } from './supervisor-kill.ts'

export interface World {
  readonly home: SandboxHome
  readonly client: ApiClient
  readonly strikes: KillSchedule
  /** What failed, and how, by what was being done. */
  readonly failures: Map<string, number>
}

/** How often something is killed in the middle of something. */
const STRUCK = 0.4
/** How often the command line is used. */
const TYPED = 0.25
/** About as long as each takes, and somewhat more. */
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
/** Much longer than the longest pause between two tries to find a sandbox again. */
const RECOVERED_MS = 150_000
const POLL_MS = 200
const AT_REST: readonly string[] = ['running', 'paused', 'stopped', 'lost']
/** In which states it is tried, so that most of what is done can be done. */
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
  /** What its file may hold: more than one thing after something of which nobody heard how it ended. */
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
    await this.#usable(this.name)
    for (let done = 0; done < steps; done++) {
      const { state } = await this.#atRest(this.name)
      const verbs = STEPS[state]!.filter((verb) => verb !== 'restore' || this.#retained.size > 0)
      const failed = await this.#do(verbs[Math.floor(this.#random() * verbs.length)]!)
      if (failed) await this.#usable(this.name)
    }
    await this.#usable(this.name)
    await this.#remove(this.name)
    for (const name of this.#retained.keys())
      await this.#eventually('delete a snapshot', () =>
        unlessGone(within((signal) => this.#world.client.snapshots.delete(name, { signal }))),
      )
  }

  /** Whether it failed. */
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
        return this.#struck(verb, () =>
          this.#by(['sandbox', verb, this.name], (signal) =>
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
    // Of a size of its own it is never one that waits.
    const memory = this.#random() < 0.5 ? undefined : 600 + Math.floor(this.#random() * 200)
    const line = this.#random() < 0.7 ? 'socket' : 'relay'
    const typed = ['--backend', 'docker', '--line', line, ...(memory ? ['--memory', `${memory}m`] : [])]
    for (;;) {
      await this.#struck('create', () =>
        this.#by(['sandbox', 'create', '--name', this.name, ...typed], (signal) =>
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
      await this.#world.strikes.calm()
    }
  }

  async #write(): Promise<boolean> {
    const text = `${this.name}.${++this.#step}`
    const before = this.#contents
    this.#contents = new Set([...before, text])
    const script = `printf ${text} > next && mv next value && cat value`
    return this.#struck('write', async () => {
      const output = await this.#by(
        ['sandbox', 'exec', this.name, '--no-stdin', '--', 'sh', '-c', script],
        (signal) => this.#inside(this.name, script, signal),
      )
      if (output !== text) throw new Error(`${text} was written, and ${output} was read`)
      this.#contents = new Set([text])
    })
  }

  /** Some bytes in, and out again. */
  async #copy(): Promise<boolean> {
    const { home } = this.#world
    const [sent, received] = [home.path(`${this.name}.sent`), home.path(`${this.name}.received`)]
    const bytes = Buffer.alloc(Math.floor(this.#random() * 3_000_000), this.name)
    writeFileSync(sent, bytes, { mode: 0o644 })
    try {
      return await this.#struck('copy', async () => {
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
    const failed = await this.#struck('snapshot', () =>
      this.#by(['sandbox', 'snapshot', this.name, '--name', name], (signal) =>
        this.#world.client.snapshots.make(this.name, { name }, { signal }),
      ),
    )
    if (!failed) this.#retained.set(name, new Set(this.#contents))
    if (!failed) return false
    await this.#atRest(this.name)
    const all = await this.#eventually('list snapshots', () =>
      within((signal) => this.#world.client.snapshots.list({ signal })),
    )
    if (all.some((one) => one.name === name)) this.#retained.set(name, new Set(this.#contents))
    return true
  }

  async #restore(): Promise<boolean> {
    const all = [...this.#retained]
    const [name, contents] = all[Math.floor(this.#random() * all.length)]!
    const before = this.#contents
    this.#contents = new Set([...before, ...contents])
    const failed = await this.#struck('restore', () =>
      this.#by(['sandbox', 'restore', this.name, name], (signal) =>
        this.#world.client.snapshots.restore(this.name, name, { signal }),
      ),
    )
    if (!failed) this.#contents = new Set(contents)
    return failed
  }

  /** The other one has the same in it, and goes again. */
  async #fork(): Promise<boolean> {
    const name = `${this.name}-f${++this.#step}`
    const failed = await this.#struck('fork', () =>
      this.#by(['sandbox', 'fork', this.name, '--name', name], (signal) =>
        this.#world.client.snapshots.fork(this.name, { name }, { signal }),
      ),
    )
    if ((await this.#findSandbox(name)) !== undefined) {
      await this.#usable(name)
      await this.#remove(name)
    } else if (!failed) throw new Error(`${name} was made, and is not there`)
    return failed
  }

  async #remove(name: string): Promise<void> {
    const { client } = this.#world
    await this.#struck('delete', () =>
      this.#by(['sandbox', 'delete', '--yes', name], (signal) => client.sandboxes.delete(name, { signal })),
    )
    await this.#eventually('delete', () =>
      unlessGone(within((signal) => client.sandboxes.delete(name, { signal }))),
    )
  }

  /** It runs, or can be made to, and its file holds what it may hold. */
  async #usable(name: string): Promise<void> {
    const { client } = this.#world
    const output = await this.#eventually('use', async () => {
      await within((signal) => client.sandboxes.resume(name, { signal }))
      return within((signal) => this.#inside(name, 'if [ -e value ]; then cat value; fi', signal))
    })
    const isOf = this.#contents.has(output) || (output === '' && this.#step === 1)
    if (!isOf) throw new Error(`${name} holds ${output}, and not ${[...this.#contents].join(' or ')}`)
    if (name === this.name) this.#contents = new Set([output])
  }

  async #inside(name: string, script: string, signal: AbortSignal): Promise<string> {
    const job_id = newId('job', Date.now())
    const argv = ['sh', '-c', script]
    const ran = await this.#world.client.sandboxes.exec(name, { argv, job_id }, { signal })
    if (ran.exit_code !== 0) throw new Error(`${script} in ${name}: ${JSON.stringify(ran)}`)
    return ran.stdout.data
  }

  /** By the command line or by the client, which answers are the same. */
  async #by<T>(
    typed: readonly string[],
    requested: (signal: AbortSignal) => Promise<T>,
  ): Promise<T | string> {
    return this.#random() < TYPED ? craik(this.#world.home, typed) : within(requested)
  }

  /** Does it while something is killed, or not; whether it failed. */
  async #struck(verb: Verb, work: () => Promise<unknown>): Promise<boolean> {
    const { strikes, failures } = this.#world
    const target = this.#random() < STRUCK ? TARGETS[Math.floor(this.#random() * TARGETS.length)] : undefined
    const afterMs = this.#random() ** 2 * SPAN_MS[verb]
    const striking = target && strikes.strike(target, afterMs)
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

  /** What fails by what was killed, here or by others, works again by itself. */
  async #eventually<T>(what: string, work: () => Promise<T>): Promise<T> {
    const endsMs = performance.now() + RECOVERED_MS
    for (;;) {
      await this.#world.strikes.calm()
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

  async #atRest(name: string): Promise<SandboxBody> {
    const found = await this.#findSandbox(name)
    if (found === undefined) throw new Error(`${name} is gone`)
    return found
  }

  /** When nothing is in progress any more; undefined when there is none. */
  #findSandbox(name: string): Promise<SandboxBody | undefined> {
    return this.#eventually('wait for', async () => {
      try {
        const body = await within((signal) => this.#world.client.sandboxes.get(name, { signal }))
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

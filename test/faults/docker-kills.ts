/** Kills the supervisor, a sidecar or the engine with SIGKILL, at moments that a seed decides. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestEngine } from '../engine.ts'
import type { Random, SupervisorKiller } from './supervisor-kill.ts'

export const TARGETS = ['supervisor', 'sidecar', 'engine'] as const
export type Target = (typeof TARGETS)[number]

/** An engine is away for up to this long. */
const AWAY_MS = 1_500

export class KillSchedule {
  readonly count: Record<Target, number> = { supervisor: 0, sidecar: 0, engine: 0 }
  readonly #engine: TestEngine
  readonly #supervisor: SupervisorKiller
  readonly #random: Random
  #restart: Promise<void> = Promise.resolve()
  #isAway = false

  constructor(engine: TestEngine, supervisor: SupervisorKiller, random: Random) {
    this.#engine = engine
    this.#supervisor = supervisor
    this.#random = random
  }

  /** Settles when what was killed is gone; an engine also is back then. */
  async strike(target: Target, afterMs: number): Promise<void> {
    await sleep(afterMs)
    if (target === 'supervisor') return this.#supervise()
    if (target === 'sidecar') return this.#sidecar()
    this.#restart = this.#isAway ? this.#restart : this.#engineAway()
    return this.#restart
  }

  /** The engine answers. */
  calm(): Promise<void> {
    return this.#restart
  }

  async #supervise(): Promise<void> {
    const before = this.#supervisor.killed.length
    await this.#supervisor.kill()
    this.count.supervisor += this.#supervisor.killed.length - before
  }

  /** From the host, by pid: that of any place, also one that waits, or what relays to it. */
  #sidecar(): void {
    const pids = this.#engine.listProcesses().filter(isOurs)
    const pid = pids[Math.floor(this.#random() * pids.length)]
    if (pid === undefined) return
    try {
      process.kill(pid, 'SIGKILL')
      this.count.sidecar++
    } catch (error) {
      if ((error as NodeJS.ErrnoException).code !== 'ESRCH') throw error
    }
  }

  /** The next one ends what runs in its containers, or lets it live. */
  async #engineAway(): Promise<void> {
    this.#isAway = true
    this.count.engine++
    try {
      await this.#engine.kill()
      await sleep(this.#random() * AWAY_MS)
      await this.#engine.start(this.#random() < 0.5 ? ['--live-restore'] : [])
    } finally {
      this.#isAway = false
    }
  }
}

/** The first process, the sidecar, or a relay to it; never what a test runs inside. */
function isOurs(pid: number): boolean {
  try {
    const [program = ''] = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
    return program.endsWith('/tini') || program.endsWith('/opt/craik/node')
  } catch {
    return false
  }
}

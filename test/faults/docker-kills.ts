/** Kills the supervisor, a sidecar or the engine with SIGKILL, at moments that a seed decides. */
import { readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import type { TestEngine } from '../engine.ts'
import type { Random, SupervisorKiller } from './supervisor-kill.ts'

export const TARGETS = ['supervisor', 'sidecar', 'engine'] as const
export type Target = (typeof TARGETS)[number]

/** The longest time that a killed engine stays down. */
const MAX_DOWN_MS = 1_500

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

  /** Resolves when the killed process is gone. For an engine, it resolves when the engine runs again. */
  async kill(target: Target, afterMs: number): Promise<void> {
    await sleep(afterMs)
    if (target === 'supervisor') return this.#killSupervisor()
    if (target === 'sidecar') return this.#killSidecar()
    this.#restart = this.#isAway ? this.#restart : this.#restartEngine()
    return this.#restart
  }

  /** Resolves when the engine answers. */
  waitForEngine(): Promise<void> {
    return this.#restart
  }

  async #killSupervisor(): Promise<void> {
    const before = this.#supervisor.killed.length
    await this.#supervisor.kill()
    this.count.supervisor += this.#supervisor.killed.length - before
  }

  /**
   * Kills a process by its pid on the host. It can belong to any sandbox instance, also one in the warm pool, and can
   * be a relay.
   */
  #killSidecar(): void {
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

  /** Without `--live-restore`, the new engine stops the programs in its containers. With it, they continue. */
  async #restartEngine(): Promise<void> {
    this.#isAway = true
    this.count.engine++
    try {
      await this.#engine.kill()
      await sleep(this.#random() * MAX_DOWN_MS)
      await this.#engine.start(this.#random() < 0.5 ? ['--live-restore'] : [])
    } finally {
      this.#isAway = false
    }
  }
}

/** Returns whether the process is a container's first process, the sidecar or a relay, and not a program of a test. */
function isOurs(pid: number): boolean {
  try {
    const [program = ''] = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
    return program.endsWith('/tini') || program.endsWith('/opt/craik/node')
  } catch {
    return false
  }
}

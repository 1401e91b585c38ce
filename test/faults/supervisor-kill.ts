/** Kills only the supervisor of a home, at moments that a seed decides. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Owner, ownerOf, ownerState } from '../../src/lib/owner.ts'
import { homeAt } from '../../src/store/home.ts'
import { runFolder } from '../../src/supervisor/run-folder.ts'

const POLL_MS = 5
/** Reports a supervisor that never returns as such, not as a test that timed out. */
const NEXT_MS = 90_000

/** Set CRAIK_TEST_SEED to this value to repeat a failed run. */
export const SEED = Number(process.env.CRAIK_TEST_SEED ?? 20_261_115)

export type Random = () => number

/** Returns numbers from 0 to 1. The same seed gives the same sequence. */
export function createRandom(seed: number): Random {
  let state = seed >>> 0
  return () => {
    state = (state + 0x6d2b79f5) >>> 0
    let mixed = Math.imul(state ^ (state >>> 15), state | 1)
    mixed ^= mixed + Math.imul(mixed ^ (mixed >>> 7), mixed | 61)
    return ((mixed ^ (mixed >>> 14)) >>> 0) / 2 ** 32
  }
}

export class SupervisorKiller {
  readonly #home: string
  readonly #info: string
  readonly killed: Owner[] = []
  /** The current action, for error messages. */
  doing = 'does nothing'

  constructor(home: string) {
    this.#home = home
    this.#info = runFolder(homeAt(home)).info
  }

  /** Returns the supervisor that runs now and has not been killed, as soon as there is one. */
  async current(): Promise<Owner> {
    const endsMs = performance.now() + NEXT_MS
    for (;;) {
      const found = this.#readOwner()
      if (found !== undefined) return found
      if (performance.now() > endsMs) throw new Error(`no supervisor came after kill ${this.killed.length}`)
      await sleep(POLL_MS)
    }
  }

  /** Resolves when the process is gone. */
  async kill(afterMs = 0): Promise<void> {
    this.doing = 'waits for a supervisor'
    const found = await this.current()
    this.doing = `leaves supervisor ${found.pid} ${Math.round(afterMs)} ms`
    if (afterMs > 0) await sleep(afterMs)
    if (ownerState(found) !== 'alive') return
    process.kill(found.pid, 'SIGKILL')
    this.killed.push(found)
    this.doing = `waits until supervisor ${found.pid} is gone`
    while (ownerState(found) === 'alive') await sleep(1)
    this.doing = 'does nothing'
  }

  /**
   * Waits until one supervisor remains. Several commands start one each, and on a slow host the others take a while to
   * exit.
   */
  async waitUntilOneLeft(): Promise<void> {
    const pids = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name) && this.#isOurs(Number(name)))
    while (pids().length > 1) await sleep(POLL_MS * 10)
  }

  /** Returns the process that the file names, if it is a supervisor of this home. */
  #readOwner(): Owner | undefined {
    try {
      if (!existsSync(this.#info)) return undefined
      const { pid } = JSON.parse(readFileSync(this.#info, 'utf8')) as { readonly pid: number }
      const owner = ownerOf(pid)
      return this.#isOurs(pid) ? owner : undefined
    } catch {
      // The file is not complete yet.
      return undefined
    }
  }

  #isOurs(pid: number): boolean {
    try {
      return (
        readFileSync(`/proc/${pid}/cmdline`, 'latin1').includes('supervisor\0run') &&
        readFileSync(`/proc/${pid}/environ`, 'latin1').includes(`CRAIK_HOME=${this.#home}\0`)
      )
    } catch {
      // The process exited in the meantime.
      return false
    }
  }
}

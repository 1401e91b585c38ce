/** Kills the supervisor of a home, and only that, at moments that a seed decides. */
import { existsSync, readdirSync, readFileSync } from 'node:fs'
import { setTimeout as sleep } from 'node:timers/promises'
import { type Owner, ownerOf, ownerState } from '../../src/lib/owner.ts'
import { homeAt } from '../../src/store/home.ts'
import { runFolder } from '../../src/supervisor/run-folder.ts'

const POLL_MS = 5
/** So that a supervisor that never comes back is told as that, and not as a test that took too long. */
const NEXT_MS = 90_000

/** Give it to repeat a run that failed. */
export const SEED = Number(process.env.CRAIK_TEST_SEED ?? 20_261_115)

export type Random = () => number

/** From 0 to 1; the same row for the same seed. */
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
  /** What it is at, for whoever wants to know why it takes so long. */
  doing = 'does nothing'

  constructor(home: string) {
    this.#home = home
    this.#info = runFolder(homeAt(home)).info
  }

  /** The one that runs now and was not killed yet, as soon as there is one. */
  async current(): Promise<Owner> {
    const endsMs = performance.now() + NEXT_MS
    for (;;) {
      const found = this.#readOwner()
      if (found !== undefined) return found
      if (performance.now() > endsMs) throw new Error(`no supervisor came after kill ${this.killed.length}`)
      await sleep(POLL_MS)
    }
  }

  /** Resolves when it is gone. */
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

  /** Several commands start one each, and on a slow machine those that are not needed take a while to see that. */
  async onlyOneLeft(): Promise<void> {
    const pids = () => readdirSync('/proc').filter((name) => /^\d+$/.test(name) && this.#isOurs(Number(name)))
    while (pids().length > 1) await sleep(POLL_MS * 10)
  }

  /** What the file names, when that is a supervisor of this home. */
  #readOwner(): Owner | undefined {
    try {
      if (!existsSync(this.#info)) return undefined
      const { pid } = JSON.parse(readFileSync(this.#info, 'utf8')) as { readonly pid: number }
      const owner = ownerOf(pid)
      return this.#isOurs(pid) ? owner : undefined
    } catch {
      // It is not written yet.
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
      // It went while it was looked at.
      return false
    }
  }
}

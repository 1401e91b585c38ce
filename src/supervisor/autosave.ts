/**
 * Saves the sandboxes of logins every few minutes, so that one that is killed loses no more than that. Each is saved by another run
 * of the program: what a sandbox wrote is read there and not in this process.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { hostEnvironment, runChild } from '../lib/child.ts'
import type { Clock } from '../lib/clock.ts'
import { PINNED } from '../lib/host-programs.ts'
import { LoginRecords } from '../login-sandbox/login-records.ts'
import type { Home } from '../store/home.ts'
import type { SupervisorLog } from './supervisor-log.ts'

export interface AutosaveOptions {
  readonly home: Home
  readonly clock: Clock
  readonly mainFile: string
  readonly everyMs: number
  readonly log: SupervisorLog
  readonly list: () => Promise<readonly SavedSandbox[]>
}

/** As much as is asked of one; one that is damaged has less. */
interface SavedSandbox {
  readonly id: string
  readonly state: string
  readonly activeAtMs?: number | null
  readonly runningJobs?: number
}

/** Of one save. What is not done by then goes on with the next. */
const SAVE_MS = 4 * 60_000
const GRACE_MS = 2_000
const MAX_OUTPUT_BYTES = 1024 * 1024
const TOLD_CHARACTERS = 500
/** How long after a look it may take until that look itself is counted as activity: the manager counts every half minute. */
const ECHO_MS = 45_000
/** A timer fires at once for anything longer. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Until it is closed. Closing ends a save that is under way; it is idempotent. */
export function startAutosave(options: AutosaveOptions): { close(): Promise<void> } {
  const controller = new AbortController()
  const working = new Autosave(options, controller.signal).run()
  return {
    async close() {
      controller.abort()
      await working
    },
  }
}

class Autosave {
  readonly #options: AutosaveOptions
  readonly #signal: AbortSignal
  readonly #records: LoginRecords
  /** When each sandbox was looked at last, by its id, and whether something had happened in it before that. */
  readonly #looks = new Map<string, { readonly atMs: number; readonly after: 'use' | 'silence' }>()

  constructor(options: AutosaveOptions, signal: AbortSignal) {
    this.#options = options
    this.#signal = signal
    this.#records = new LoginRecords(options.home.loginSandboxes)
  }

  async run(): Promise<void> {
    const everyMs = Math.min(this.#options.everyMs, MAX_TIMER_MS)
    for (;;) {
      await sleep(everyMs, undefined, { signal: this.#signal }).catch(() => {})
      if (this.#signal.aborted) return
      await this.#saveAll().catch((error: unknown) => this.#complain('all', reasonOf(error)))
    }
  }

  /** One after the other. */
  async #saveAll(): Promise<void> {
    const records = this.#records.list((login) => this.#complain(login, 'cannot read its record'))
    if (records.length === 0) return
    const running = new Map(
      (await this.#options.list()).flatMap((one) => (one.state === 'running' ? [[one.id, one]] : [])),
    )
    for (const id of this.#looks.keys()) if (!running.has(id)) this.#looks.delete(id)
    for (const { login, sandboxId } of records) {
      const sandbox = running.get(sandboxId)
      if (sandbox !== undefined && !this.#signal.aborted) await this.#save(login, sandbox)
    }
  }

  async #save(login: string, sandbox: SavedSandbox): Promise<void> {
    const { home, mainFile, clock } = this.#options
    const after = this.#lookAfter(sandbox)
    let message = ''
    const result = await runChild({
      argv: [
        process.execPath,
        mainFile,
        'save',
        '--login',
        login,
        '--quiet',
        ...(after === undefined ? ['--conversations'] : []),
      ],
      cwd: '/',
      env: { ...hostEnvironment(process.env), ...readPins(), CRAIK_HOME: home.root },
      timeoutMs: SAVE_MS,
      graceMs: GRACE_MS,
      maxOutputBytes: MAX_OUTPUT_BYTES,
      signal: this.#signal,
      inputs: [],
      onStdout: () => {},
      onStderr: (chunk) => {
        message = (message + chunk.toString()).slice(0, TOLD_CHARACTERS)
      },
    })
    if (after !== undefined) this.#looks.set(sandbox.id, { atMs: clock.nowMs(), after })
    if (this.#signal.aborted || (result.end === 'exited' && result.exitCode === 0)) return
    const how = result.end === 'exited' ? `exit code ${result.exitCode}` : result.end
    this.#complain(login, message.split('\n')[0] || how)
  }

  /**
   * To look at a sandbox is to use it: one in which nothing happens is looked at once more, for what happened right after the look
   * before, and then left alone, so that it becomes idle in its time. Undefined: it is left alone.
   */
  #lookAfter({ id, activeAtMs, runningJobs = 0 }: SavedSandbox): 'use' | 'silence' | undefined {
    const last = this.#looks.get(id)
    if (last === undefined || runningJobs > 0) return 'use'
    if (typeof activeAtMs === 'number' && activeAtMs > last.atMs + ECHO_MS) return 'use'
    return last.after === 'use' ? 'silence' : undefined
  }

  #complain(login: string, reason: string): void {
    this.#options.log('warn', 'could not save a login sandbox', { login, reason })
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, TOLD_CHARACTERS) : 'unknown'
}

/** It looks at nobody's PATH either. */
function readPins(): Record<string, string> {
  const pins = process.env[PINNED]
  return pins === undefined ? {} : { [PINNED]: pins }
}

/**
 * Saves login sandboxes every few minutes, so that a sandbox that is killed loses no more than that. Another run of the
 * program saves each one, because that process, and not this one, then reads what the sandbox wrote.
 */
import { setTimeout as sleep } from 'node:timers/promises'
import { hostEnvironment, runChild } from '../lib/child.ts'
import type { Clock } from '../lib/clock.ts'
import { PINS_VARIABLE } from '../lib/host-programs.ts'
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

/** The fields that a save needs. A damaged sandbox has fewer. */
interface SavedSandbox {
  readonly id: string
  readonly state: string
  readonly activeAtMs?: number | null
  readonly runningJobs?: number
}

/** The last full save of a sandbox, or the last attempt. */
interface FullSave {
  readonly atMs: number
  /** Whether the sandbox was in use before the save. */
  readonly after: 'use' | 'silence'
  /** The number of failures in a row since the sandbox was last in use. */
  readonly failures: number
}

/** The time limit of one save. The next save continues with what is left. */
const SAVE_MS = 4 * 60_000
const GRACE_MS = 2_000
const MAX_OUTPUT_BYTES = 1024 * 1024
const MAX_MESSAGE_CHARACTERS = 500
/**
 * A save counts as activity of its sandbox, up to this long after its end: the manager counts activity every half
 * minute.
 */
const SAVE_ACTIVITY_MS = 45_000
/**
 * After so many failures in a row, about an hour at the default interval, an unused sandbox can become idle. Otherwise,
 * an inbox that is gone would keep it running forever.
 */
const MAX_FAILURES = 12
/** A timer with a longer delay fires at once. */
const MAX_TIMER_MS = 2 ** 31 - 1

/** Saves until `close` is called. Closing ends a save that is in progress, and is idempotent. */
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
  /** By the sandbox's id. */
  readonly #lastSaves = new Map<string, FullSave>()

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
      await this.#saveAll().catch((error: unknown) => this.#logFailure('all', reasonOf(error)))
    }
  }

  /** Saves the sandboxes one after the other. */
  async #saveAll(): Promise<void> {
    const records = this.#records.list((login) => this.#logFailure(login, 'cannot read its record'))
    if (records.length === 0) return
    const running = new Map(
      (await this.#options.list()).flatMap((one) => (one.state === 'running' ? [[one.id, one]] : [])),
    )
    for (const id of this.#lastSaves.keys()) if (!running.has(id)) this.#lastSaves.delete(id)
    for (const { login, sandboxId } of records) {
      const sandbox = running.get(sandboxId)
      if (sandbox !== undefined && !this.#signal.aborted) await this.#save(login, sandbox)
    }
  }

  async #save(login: string, sandbox: SavedSandbox): Promise<void> {
    const { home, mainFile, clock } = this.#options
    const due = this.#dueFullSave(sandbox)
    let message = ''
    const result = await runChild({
      argv: [
        process.execPath,
        mainFile,
        'save',
        '--login',
        login,
        '--quiet',
        ...(due === undefined ? ['--conversations'] : []),
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
        message = (message + chunk.toString()).slice(0, MAX_MESSAGE_CHARACTERS)
      },
    })
    const isSaved = result.end === 'exited' && result.exitCode === 0
    if (due !== undefined) {
      const failures = isSaved ? 0 : due.failures + 1
      this.#lastSaves.set(sandbox.id, { atMs: clock.nowMs(), after: due.after, failures })
    }
    if (this.#signal.aborted || isSaved) return
    const how = result.end === 'exited' ? `exit code ${result.exitCode}` : result.end
    this.#logFailure(login, message.split('\n')[0] || how)
  }

  /**
   * Returns the full save to make, or `undefined` when saving the conversations is enough. A full save counts as use of
   * the sandbox. An unused sandbox therefore gets only one more, for what happened right after the save before. Then it
   * can become idle. A failed save is repeated, but not forever.
   */
  #dueFullSave({ id, activeAtMs, runningJobs = 0 }: SavedSandbox): Omit<FullSave, 'atMs'> | undefined {
    const last = this.#lastSaves.get(id)
    const isUsed =
      last === undefined ||
      runningJobs > 0 ||
      (typeof activeAtMs === 'number' && activeAtMs > last.atMs + SAVE_ACTIVITY_MS)
    if (isUsed) return { after: 'use', failures: 0 }
    if (last.failures > 0 && last.failures < MAX_FAILURES) return last
    return last.after === 'use' ? { after: 'silence', failures: last.failures } : undefined
  }

  #logFailure(login: string, reason: string): void {
    this.#options.log('warn', 'could not save a login sandbox', { login, reason })
  }
}

function reasonOf(error: unknown): string {
  return error instanceof Error ? error.message.slice(0, MAX_MESSAGE_CHARACTERS) : 'unknown'
}

/** Like the supervisor, a save does not search the PATH of any user. It gets the supervisor's pinned programs. */
function readPins(): Record<string, string> {
  const pins = process.env[PINS_VARIABLE]
  return pins === undefined ? {} : { [PINS_VARIABLE]: pins }
}

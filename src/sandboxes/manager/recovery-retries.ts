/** Retries to take over sandboxes that could not be recovered yet, for example because their engine does not answer. */
import { CraikError } from '../../errors.ts'
import type { SandboxId } from '../../lib/ids.ts'

const FIRST_PAUSE_MS = 1_000
const MAX_PAUSE_MS = 30_000

interface Waiting {
  readonly reason: string
  readonly pauseMs: number
  readonly timer: NodeJS.Timeout
}

export class RecoveryRetries {
  readonly #waiting = new Map<SandboxId, Waiting>()
  readonly #attempt: (id: SandboxId) => Promise<void>
  readonly #firstPauseMs: number
  #closed = false

  /** `attempt` resolves when the sandbox needs no further attempt, and rejects when it does. */
  constructor(attempt: (id: SandboxId) => Promise<void>, firstPauseMs = FIRST_PAUSE_MS) {
    this.#attempt = attempt
    this.#firstPauseMs = firstPauseMs
  }

  get size(): number {
    return this.#waiting.size
  }

  /** Returns why the sandbox is not recovered yet, or `undefined` when no attempt is pending. */
  reasonFor(id: SandboxId): string | undefined {
    return this.#waiting.get(id)?.reason
  }

  /** Throws if the sandbox is not recovered yet, so that no other operation uses it meanwhile. */
  require(id: SandboxId): void {
    const reason = this.reasonFor(id)
    if (reason !== undefined) throw unreachable(id, reason)
  }

  later(id: SandboxId, error: unknown): void {
    if (this.#closed) return
    const known = this.#waiting.get(id)
    clearTimeout(known?.timer)
    const pauseMs = known === undefined ? this.#firstPauseMs : Math.min(MAX_PAUSE_MS, 2 * known.pauseMs)
    const reason = error instanceof Error ? error.message : String(error)
    const timer = setTimeout(() => void this.#again(id), pauseMs)
    this.#waiting.set(id, { reason, pauseMs, timer })
  }

  /** Ends the attempts: the sandbox was taken over, is lost or is deleted. */
  drop(id: SandboxId): void {
    clearTimeout(this.#waiting.get(id)?.timer)
    this.#waiting.delete(id)
  }

  close(): void {
    this.#closed = true
    for (const id of [...this.#waiting.keys()]) this.drop(id)
  }

  async #again(id: SandboxId): Promise<void> {
    try {
      await this.#attempt(id)
      this.drop(id)
    } catch (error) {
      if (this.#waiting.has(id)) this.later(id, error)
    }
  }
}

export function unreachable(id: SandboxId, reason: string): CraikError {
  return new CraikError('unavailable', `sandbox ${id} cannot be reached now: ${reason}`, {
    hint: `wait while Craik retries; show its state:  craik sandbox show ${id}`,
  })
}

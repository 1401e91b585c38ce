/** Forwards interruptions of this command to its job: Ctrl-C, and the exit of the program that reads its output. */
import { constants } from 'node:os'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'

/** The exit code that a shell reports for a program that SIGPIPE has ended. */
export const UNREAD_EXIT_CODE = 128 + constants.signals.SIGPIPE

/** The time that the job has after the first signal. `main` waits a little longer. */
const PATIENCE_MS = 8_000
/**
 * A program that ignores SIGPIPE would normally fail at its next write. A write in a sandbox does not fail, so the
 * program gets SIGTERM after this time.
 */
const UNREAD_PATIENCE_MS = 1_000

type Step = readonly [signal: NodeJS.Signals, afterMs: number]
const INTERRUPTED: readonly Step[] = [
  ['SIGINT', 0],
  ['SIGKILL', PATIENCE_MS],
]
const UNREAD: readonly Step[] = [
  ['SIGPIPE', 0],
  ['SIGTERM', UNREAD_PATIENCE_MS],
  ['SIGKILL', PATIENCE_MS],
]

/**
 * Kills the job at a second Ctrl-C, or if it does not end in time. `left` aborts if the job cannot be reached. Call this
 * before the job starts: it throws if the command was interrupted already.
 */
export function passInterrupts(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  jobId: string,
  left: AbortController,
): Disposable {
  context.signal.throwIfAborted()
  const timers: NodeJS.Timeout[] = []
  const send = (signal: NodeJS.Signals) => {
    // The command stops waiting for a job that does not run or cannot be reached.
    client.jobs.signal(sandbox, jobId, signal).catch(() => left.abort(context.signal.reason))
  }
  const onInterrupt = () => {
    for (const [signal, afterMs] of isUnread(context.signal.reason) ? UNREAD : INTERRUPTED) {
      if (afterMs === 0) send(signal)
      else timers.push(setTimeout(() => send(signal), afterMs))
    }
  }
  const onKill = () => send('SIGKILL')
  context.signal.addEventListener('abort', onInterrupt, { once: true })
  context.kill.addEventListener('abort', onKill, { once: true })
  return {
    [Symbol.dispose]() {
      for (const timer of timers) clearTimeout(timer)
      context.signal.removeEventListener('abort', onInterrupt)
      context.kill.removeEventListener('abort', onKill)
    },
  }
}

function isUnread(reason: unknown): boolean {
  const cause = reason instanceof Error ? reason.cause : undefined
  return cause instanceof Error && (cause as NodeJS.ErrnoException).code === 'EPIPE'
}

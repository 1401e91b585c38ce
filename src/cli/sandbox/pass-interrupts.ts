/** What interrupts a command here reaches the job that it waits for: Ctrl-C, and a reader of its output that leaves. */
import { constants } from 'node:os'
import type { ApiClient } from '../../sdk/client.ts'
import type { CliContext } from '../context.ts'

/** What a program dies of whose reader has left, as a shell tells it. */
export const UNREAD_EXIT_CODE = 128 + constants.signals.SIGPIPE

/** After the first word the job has this long; `main` waits a little longer. */
const PATIENCE_MS = 8_000
/** A program that does not take SIGPIPE would have learned from its next write. Ours cannot fail, so it is asked. */
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

/** A second Ctrl-C, or no end in time, ends the job by force. `left` aborts when it cannot be reached. */
export function passInterrupts(
  context: CliContext,
  client: ApiClient,
  sandbox: string,
  jobId: string,
  left: AbortController,
): Disposable {
  const timers: NodeJS.Timeout[] = []
  const send = (signal: NodeJS.Signals) => {
    // What is not running, or cannot be reached, is left.
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

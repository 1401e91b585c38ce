/** Waits for a lock that another process keeps while it works. */
import { CraikError } from '../errors.ts'
import { delay } from './delay.ts'
import { type FileLock, takeFileLock } from './file-lock.ts'

const POLL_MS = 200
/** Such work takes a minute or two. After this time, an error is more useful than more waiting. */
const WAIT_MS = 30 * 60_000

export interface LockWait {
  /** The work of the other process, such as `builds an image`. */
  readonly doing: string
  readonly signal: AbortSignal
  readonly onWait: () => void
}

/** Returns the lock, which is released at the end of its `using` scope. */
export async function waitForFileLock(
  path: string,
  label: string,
  { doing, signal, onWait }: LockWait,
): Promise<Disposable> {
  const until = performance.now() + WAIT_MS
  for (;;) {
    signal.throwIfAborted()
    const lock = takeFileLock(path, label)
    if (lock !== undefined) return disposable(lock)
    if (performance.now() > until)
      throw new CraikError('unavailable', `timed out after 30 min: another craik process ${doing}`, {
        hint: 'find its process:  ps -ef | grep craik',
      })
    onWait()
    await delay(POLL_MS, signal)
  }
}

function disposable(lock: FileLock): Disposable {
  return { [Symbol.dispose]: () => lock.release() }
}

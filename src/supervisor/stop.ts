/** Stops the supervisor of a home and waits until it has exited. Sandboxes are not its children, so they continue. */
import { CraikError } from '../errors.ts'
import { delay } from '../lib/delay.ts'
import { ownerOf, ownerState } from '../lib/owner.ts'
import type { Home } from '../store/home.ts'
import { findSupervisor } from './connect-or-start.ts'
import { takeLock } from './lock.ts'
import { ensureRunFolder } from './run-folder.ts'

export interface Stopped {
  readonly stopped: true
  readonly pid: number
  /** The number of sandboxes that were running. They still are. */
  readonly sandboxes: number
}

const POLL_MS = 25

/** Returns `undefined` when no supervisor runs. */
export async function stopSupervisor(
  deps: { readonly home: Home; readonly signal: AbortSignal },
  waitMs: number,
): Promise<Stopped | undefined> {
  using client = await findSupervisor(deps)
  if (client === undefined) return undefined
  const { pid, sandboxes } = await client.supervisor.status({ signal: deps.signal })
  const owner = ownerOf(pid)
  await client.supervisor.drain({ signal: deps.signal })
  client.close()
  const folder = ensureRunFolder(deps.home)
  const until = performance.now() + waitMs
  for (;;) {
    const lock = takeLock(folder.lock)
    lock?.release()
    // The supervisor releases the lock shortly before its process ends.
    const gone = owner === undefined || ownerState(owner) !== 'alive'
    if (lock !== undefined && gone) return { stopped: true, pid, sandboxes }
    if (performance.now() > until)
      throw gone
        ? takenOverError(pid)
        : new CraikError(
            'supervisor_unreachable',
            `the supervisor (pid ${pid}) did not shut down when asked`,
            { hint: `end the supervisor by force (sandboxes keep running):  kill -9 ${pid}` },
          )
    await delay(POLL_MS, deps.signal)
  }
}

function takenOverError(pid: number): CraikError {
  return new CraikError(
    'supervisor_unreachable',
    `the supervisor (pid ${pid}) stopped, but another one is running`,
    { hint: 'stop the other one, which another command started:  craik supervisor stop' },
  )
}

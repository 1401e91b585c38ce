/** Asks the process of a run to stop, after making sure that it is still that process. */
import { type Owner, ownerState } from '../../lib/owner.ts'

/** False: it is gone, hidden or not ours to signal; it will find the request when it writes its next step. */
export function askToStop(owner: Owner): boolean {
  if (ownerState(owner) !== 'alive' || owner.pid === process.pid) return false
  try {
    return process.kill(owner.pid, 'SIGINT')
  } catch {
    return false
  }
}

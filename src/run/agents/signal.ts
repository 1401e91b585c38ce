/** Asks the process of a run to stop, after making sure that it is still that process. */
import { type Owner, ownerState, usesAnother } from '../../lib/owner.ts'

/**
 * False: it is gone, hidden or not ours to signal; it will find the request when it writes its next step. In a copy of a
 * home, the process of a run works in the original, and is not asked.
 */
export function askToStop(owner: Owner, database: string): boolean {
  if (ownerState(owner) !== 'alive' || owner.pid === process.pid) return false
  if (usesAnother(owner, database)) return false
  try {
    return process.kill(owner.pid, 'SIGINT')
  } catch {
    return false
  }
}

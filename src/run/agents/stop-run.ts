/** Asks the process of a run to stop, after a check that the pid still belongs to that process. */
import { hasOtherFileOpen, type Owner, ownerState } from '../../lib/owner.ts'

/**
 * Returns false when the process is dead, invisible or not allowed to be signalled. It finds the request at its next
 * step. In a copy of a home, the process belongs to the original home and gets no signal.
 */
export function askToStop(owner: Owner, database: string): boolean {
  if (ownerState(owner) !== 'alive' || owner.pid === process.pid) return false
  if (hasOtherFileOpen(owner, database)) return false
  try {
    return process.kill(owner.pid, 'SIGINT')
  } catch {
    return false
  }
}

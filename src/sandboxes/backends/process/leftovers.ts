/** Ends what a killed Craik process left of the single commands and probes that it was just starting. */
import { existsSync, readlinkSync } from 'node:fs'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { ownerOf } from '../../../lib/owner.ts'
import { endAll, findProcesses } from './instance-processes.ts'

/**
 * The kernel appends `(deleted)` when the process is gone. The folder of a new process with the same pid has no such
 * suffix.
 */
const FOLDER_OF = /^\/proc\/(\d+)\/task\/\1( \(deleted\))?$/
const DELETED = / \(deleted\)$/

/**
 * Returns the working folder in which Craik starts a bubblewrap that must end with it. Programs in the sandbox cannot
 * see it, because bubblewrap changes the folder before. No user and no other program works there.
 */
export function ownProcFolder(): string {
  // The pid of this process in this `/proc`.
  const pid = linkOf('/proc/self')
  return pid === undefined ? '/' : `/proc/${pid}/task/${pid}`
}

/**
 * bubblewrap and its child each ask the kernel to end them with their parent, as soon as they get that far. In between,
 * the child waits for a message from bubblewrap. If bubblewrap ends first, because its pipes are closed or because it
 * ends with Craik, the child waits forever. It is then still in the folder that it started in.
 */
export async function endLeftovers(environment: NodeJS.ProcessEnv): Promise<void> {
  const bubblewrap = findSystemProgram('bwrap', environment.PATH)
  if (bubblewrap === undefined) return
  await endAll(() => findProcesses(async (pid) => isLeft(pid, bubblewrap)))
}

function isLeft(pid: number, bubblewrap: string): boolean {
  const [, maker, deleted] = FOLDER_OF.exec(linkOf(`/proc/${pid}/cwd`) ?? '') ?? []
  if (maker === undefined) return false
  // The system may have installed a newer bubblewrap meanwhile.
  if (linkOf(`/proc/${pid}/exe`)?.replace(DELETED, '') !== bubblewrap) return false
  return deleted !== undefined || isZombie(Number(maker))
}

/**
 * Returns whether a process is gone and its parent has not waited for it yet. A process that is only hidden has no
 * entry at all.
 */
function isZombie(pid: number): boolean {
  return existsSync(`/proc/${pid}/stat`) && ownerOf(pid) === undefined
}

function linkOf(path: string): string | undefined {
  try {
    return readlinkSync(path)
  } catch {
    return undefined
  }
}

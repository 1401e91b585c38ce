/** What a Craik that was killed left of the single commands and probes that it had just begun to start. */
import { existsSync, readlinkSync } from 'node:fs'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { ownerOf } from '../../../lib/owner.ts'
import { endAll, findProcesses } from './instance-processes.ts'

/** The kernel adds the last word when the process is gone, and never to the folder of another one with its number. */
const FOLDER_OF = /^\/proc\/(\d+)\/task\/\1( \(deleted\))?$/
const DELETED = / \(deleted\)$/

/**
 * Where a bubblewrap starts that is to end with us. What runs inside cannot see it: bubblewrap leaves it before. No
 * person works there, and no other program does.
 */
export function folderThatNamesUs(): string {
  // Ours, as this `/proc` numbers processes.
  const pid = linkOf('/proc/self')
  return pid === undefined ? '/' : `/proc/${pid}/task/${pid}`
}

/**
 * bubblewrap asks to end with its parent, and so does its child, each when it has got that far. In between the child
 * waits for a word from bubblewrap. When that ends first, because nobody hears it any more or because it ends with us,
 * the child waits for ever, still in the folder that it began in.
 */
export async function endLeftovers(environment: NodeJS.ProcessEnv): Promise<void> {
  const bubblewrap = findSystemProgram('bwrap', environment.PATH)
  if (bubblewrap === undefined) return
  await endAll(() => findProcesses(async (pid) => isLeft(pid, bubblewrap)))
}

function isLeft(pid: number, bubblewrap: string): boolean {
  const [, maker, deleted] = FOLDER_OF.exec(linkOf(`/proc/${pid}/cwd`) ?? '') ?? []
  if (maker === undefined) return false
  // A newer bubblewrap may have been installed meanwhile.
  if (linkOf(`/proc/${pid}/exe`)?.replace(DELETED, '') !== bubblewrap) return false
  return deleted !== undefined || isZombie(Number(maker))
}

/** It is gone, and its parent has not taken note yet. One that is only hidden from us is not there at all. */
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

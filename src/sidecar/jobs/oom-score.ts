/** Makes the kernel kill a job's program before the sidecar when memory runs out. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const MAX_OOM_SCORE = '1000'

/**
 * Between fork and exec, a program is as inaccessible in /proc as the sidecar, whose binary is not readable. Therefore
 * this retries for a moment.
 */
const RETRY_MS = [1, 2, 5, 10, 20, 50, 100]

/**
 * Processes that the program starts later inherit the score. This also sets it for processes that it has already
 * started.
 */
export function preferForOutOfMemory(pid: number, attempt = 0): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, MAX_OOM_SCORE)
    for (const child of childrenOf(pid)) preferForOutOfMemory(child, RETRY_MS.length)
  } catch (error) {
    const wait = RETRY_MS[attempt]
    if ((error as NodeJS.ErrnoException).code !== 'EACCES' || wait === undefined) return
    setTimeout(() => preferForOutOfMemory(pid, attempt + 1), wait).unref()
  }
}

function childrenOf(pid: number): number[] {
  const threads = readdirSync(`/proc/${pid}/task`)
  const lists = threads.map((thread) => readFileSync(`/proc/${pid}/task/${thread}/children`, 'latin1'))
  return lists.flatMap((list) => list.split(' ').filter(Boolean).map(Number))
}

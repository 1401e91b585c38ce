/** Makes the kernel take a job's program first when memory runs out, not the sidecar. */
import { readdirSync, readFileSync, writeFileSync } from 'node:fs'

const FIRST_TO_GO = '1000'

/**
 * A program that was forked and has not called exec yet is as closed as the sidecar itself, whose binary nobody may
 * read; so this is tried again for a moment.
 */
const RETRY_MS = [1, 2, 5, 10, 20, 50, 100]

/** What it starts from then on inherits it; what it has started already is told as well. */
export function preferForOutOfMemory(pid: number, attempt = 0): void {
  try {
    writeFileSync(`/proc/${pid}/oom_score_adj`, FIRST_TO_GO)
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

/** Finds and signals the processes of a sandbox from the host. */
import { readdirSync, readFileSync } from 'node:fs'

/**
 * Signals all descendants of a process, but not the process. bubblewrap would die of the signal and end the sandbox
 * before a program could clean up.
 */
export function signalDescendants(pid: number, signal: NodeJS.Signals): void {
  for (const child of childrenOf(pid)) {
    // Its children come first, because they cannot be found after their parent exits.
    signalDescendants(child, signal)
    try {
      process.kill(child, signal)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'ESRCH' && code !== 'EPERM') throw error
    }
  }
}

/**
 * Each thread has its own children. If a thread exits meanwhile, only its children are missing, and another thread of
 * the process adopts them.
 */
export function childrenOf(pid: number): number[] {
  return threadsOf(pid).flatMap((thread) => readChildren(`/proc/${pid}/task/${thread}/children`))
}

function threadsOf(pid: number): string[] {
  try {
    return readdirSync(`/proc/${pid}/task`)
  } catch {
    return []
  }
}

function readChildren(path: string): number[] {
  try {
    return readFileSync(path, 'utf8').split(' ').filter(Boolean).map(Number)
  } catch {
    return []
  }
}

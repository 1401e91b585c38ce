/** Reaching the processes inside a sandbox from outside. */
import { readdirSync, readFileSync } from 'node:fs'

/**
 * Signals everything below a process, but not it: bubblewrap itself would die of the signal and take the sandbox
 * with it before a program could tidy up.
 */
export function signalDescendants(pid: number, signal: NodeJS.Signals): void {
  for (const child of childrenOf(pid)) {
    // Its children first: a parent that ends takes the way to them away.
    signalDescendants(child, signal)
    try {
      process.kill(child, signal)
    } catch (error) {
      const { code } = error as NodeJS.ErrnoException
      if (code !== 'ESRCH' && code !== 'EPERM') throw error
    }
  }
}

/** Each thread has children of its own; one that ends meanwhile hides only those, which its process takes over. */
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

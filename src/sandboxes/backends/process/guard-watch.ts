/**
 * Sees when a protected name of a workspace in place is protected no more. What is mounted over a name goes when that name
 * is given to something else on the host: git, editors and package managers replace their files by renaming. Nobody
 * outside can put it back, and from then on it can be written inside, so the place is to end.
 */
import { readFileSync } from 'node:fs'
import { INSIDE } from '../../../sidecar/protocol.ts'
import { guardedNames } from './workspace-guard.ts'

const POLL_MS = 250

/** Calls once, and then looks no more. `pid` is one that lives in the place. */
export function watchGuards(pid: number, sandboxFolder: string, onLost: (why: string) => void): Disposable {
  const names = guardedNames(sandboxFolder)
  const timer = setInterval(() => {
    const lost = lostOf(names, mountPoints(pid))
    if (lost === undefined) return
    clearInterval(timer)
    onLost(
      `${lost} in its workspace was replaced on this machine, and could then be written inside: look at it before you use it`,
    )
  }, POLL_MS)
  timer.unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

/** Undefined also where the workspace itself is not seen: that is nobody of this place any more. */
function lostOf(names: readonly string[], points: ReadonlySet<string>): string | undefined {
  if (!points.has(INSIDE.workspace)) return undefined
  return names.find((name) => !points.has(`${INSIDE.workspace}/${name}`))
}

function mountPoints(pid: number): ReadonlySet<string> {
  try {
    const lines = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')
    return new Set(lines.flatMap((line) => line.split(' ')[4] ?? []))
  } catch {
    return new Set()
  }
}

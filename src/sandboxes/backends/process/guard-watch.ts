/**
 * Sees when a protected name of a workspace in place is protected no more. What is mounted over a name goes when that name
 * is given to something else on the host: git, editors and package managers replace their files by renaming. Nobody
 * outside can put it back, and from then on it can be written inside, so the place is to end.
 */
import { readFileSync } from 'node:fs'
import { INSIDE } from '../../../sidecar/protocol.ts'
import { readGuardedNames } from './workspace-guard.ts'

const POLL_MS = 250

/** Ends the place, and tries again until it has ended. `pid` is one that lives in it. */
export function watchGuards(
  pid: number,
  sandboxFolder: string,
  end: (why: string) => Promise<void>,
): Disposable {
  const names = readGuardedNames(sandboxFolder)
  let isEnding = false
  const timer = setInterval(() => {
    if (isEnding) return
    const lost = findUnmounted(names, mountPoints(pid))
    if (lost === undefined) return
    isEnding = true
    const why = `${lost} in its workspace was replaced on the host, and the sandbox could then write to it: check it before you use it`
    void end(why)
      // What holds it may not answer just now.
      .catch(() => {})
      .finally(() => {
        isEnding = false
      })
  }, POLL_MS)
  timer.unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

/** Undefined also where the workspace itself is not seen: that is nobody of this place any more. */
function findUnmounted(names: readonly string[], points: ReadonlySet<string>): string | undefined {
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

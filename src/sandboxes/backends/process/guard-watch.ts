/**
 * Detects when a protected name of a workspace in place is no longer protected. A mount over a name disappears when the
 * name gets another file on the host. Git, editors and package managers replace files by renaming. The host cannot
 * restore the mount. From then on the sandbox can write to the name, so the instance must end.
 */
import { readFileSync } from 'node:fs'
import { INSIDE } from '../../../sidecar/protocol.ts'
import { readMountedNames } from './workspace-guard.ts'

const POLL_MS = 250

/** Ends the instance, and retries until it has ended. `pid` is a process of the instance. */
export function watchGuards(
  pid: number,
  sandboxFolder: string,
  end: (why: string) => Promise<void>,
): Disposable {
  const names = readMountedNames(sandboxFolder)
  let isEnding = false
  const timer = setInterval(() => {
    if (isEnding) return
    const lost = findUnmounted(names, mountPoints(pid))
    if (lost === undefined) return
    isEnding = true
    const why = `${lost} in its workspace was replaced on the host, and the sandbox could then write to it: check it before you use it`
    void end(why)
      // The kernel or a container engine must end the instance, and may not respond at this moment.
      .catch(() => {})
      .finally(() => {
        isEnding = false
      })
  }, POLL_MS)
  timer.unref()
  return { [Symbol.dispose]: () => clearInterval(timer) }
}

/** Also returns `undefined` when the workspace itself is not mounted: then the process is not of this instance. */
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

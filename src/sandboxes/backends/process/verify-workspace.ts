/** What the host itself sees of a workspace in place: whether it, and what is guarded in it, is what was looked at. */
import { lstatSync, readFileSync } from 'node:fs'
import { INSIDE } from '../../../sidecar/protocol.ts'
import { folderIdentity } from './inspect-folder.ts'
import { fileIdentity, type Guarded } from './workspace-guard.ts'

export interface ExpectedWorkspace {
  /** As `device:inode`. */
  readonly identity: string
  /** What holds others comes before them, so that no name is looked up through one that was not seen to be right. */
  readonly guarded: readonly Guarded[]
}

/**
 * What is wrong with it; undefined when nothing is. bubblewrap mounts by name and follows links, and a name may have
 * been given to something else since it was looked at; what is mounted now, nobody exchanges any more.
 */
export function faultInWorkspace(pid: number, expected: ExpectedWorkspace): string | undefined {
  try {
    const inside = `/proc/${pid}/root${INSIDE.workspace}`
    const lines = readFileSync(`/proc/${pid}/mountinfo`, 'utf8').split('\n')
    const points = new Set(lines.map((line) => line.split(' ')[4]))
    const mounted = folderIdentity(lstatSync(inside, { bigint: true }))
    if (!points.has(INSIDE.workspace) || mounted !== expected.identity)
      return 'its workspace is not the requested folder'
    const wrong = expected.guarded.find(
      ({ path, identity }) =>
        !points.has(`${INSIDE.workspace}/${path}`) ||
        fileIdentity(lstatSync(`${inside}/${path}`, { bigint: true })) !== identity,
    )
    return wrong && `${wrong.path} in its workspace was replaced while it started`
  } catch (error) {
    return `its workspace cannot be inspected (${(error as NodeJS.ErrnoException).code})`
  }
}

/**
 * Inspects a workspace in place from the host, to verify that it and its protected files are those that Craik checked.
 */
import { lstatSync, readFileSync } from 'node:fs'
import { INSIDE } from '../../../sidecar/protocol.ts'
import { folderIdentity } from './inspect-folder.ts'
import { fileIdentity, type ProtectedName } from './workspace-guard.ts'

export interface ExpectedWorkspace {
  /** As `device:inode`. */
  readonly identity: string
  /** A folder comes before its entries, so that no entry is read through an unverified folder. */
  readonly guarded: readonly ProtectedName[]
}

/**
 * Returns the first fault. `undefined` when the workspace is correct. bubblewrap mounts by name and follows links, and
 * a name can get another file after Craik checked it. A finished mount can no longer be exchanged.
 */
export function findWorkspaceFault(pid: number, expected: ExpectedWorkspace): string | undefined {
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

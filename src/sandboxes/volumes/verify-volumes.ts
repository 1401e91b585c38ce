/** Inspects the volumes of a sandbox from the host: each is the intended folder, and there are no others. */
import { lstatSync } from 'node:fs'
import { INSIDE } from '../../sidecar/protocol.ts'
import type { MountedVolume } from '../backend.ts'
import { mountTable } from '../backends/docker/mount-table.ts'
import { folderIdentity } from '../backends/process/inspect-folder.ts'

export interface ExpectedVolume extends MountedVolume {
  /** As `device:inode`. */
  readonly identity: string
}

/**
 * Returns the first fault. `undefined` when the volumes are correct. `options` are the mount options that each volume
 * needs besides `rw`.
 */
export function findVolumeFault(
  pid: number,
  expected: readonly ExpectedVolume[],
  options: readonly string[] = [],
): string | undefined {
  try {
    const points = new Map(mountTable(pid).map(({ point, options }) => [point, options]))
    for (const { name, at, identity } of expected) {
      const inside = `${INSIDE.home}/${at}`
      const found = points.get(inside)
      const mounted = folderIdentity(lstatSync(`/proc/${pid}/root${inside}`, { bigint: true }))
      if (found === undefined || mounted !== identity) return `~/${at} is not the volume ${name}`
      const missing = ['rw', ...options].find((option) => !found.includes(option))
      if (missing !== undefined) return `the volume ${name} is not mounted ${missing}`
    }
    const known = new Set(expected.map(({ at }) => `${INSIDE.home}/${at}`))
    const other = [...points.keys()].find(
      (point) => point.startsWith(`${INSIDE.home}/`) && !isWorkspace(point) && !known.has(point),
    )
    return other && 'its home contains another mounted folder'
  } catch (error) {
    return `its volumes cannot be inspected (${(error as NodeJS.ErrnoException).code})`
  }
}

function isWorkspace(point: string): boolean {
  return point === INSIDE.workspace || point.startsWith(`${INSIDE.workspace}/`)
}

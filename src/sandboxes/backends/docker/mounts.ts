/** Host folders that a container can read. Craik checks them before the start, and again after they are mounted. */
import { lstatSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import type { MountSpec } from '../../backend.ts'
import { folderIdentity } from '../process/inspect-folder.ts'
import { resolveMount } from '../process/workspace.ts'
import { refuseSockets } from '../process/workspace-sockets.ts'
import { mountPoints, mountTable } from './mount-table.ts'
import type { MountContext } from './prepare-mounts.ts'

const INSTEAD = 'copy the files into the sandbox instead:  craik sandbox cp FOLDER ID:'

/** A mount with an identity that detects a replaced folder. */
export interface CheckedMount extends MountSpec {
  /** The identity, as `device:inode`. */
  readonly identity: string
}

export async function checkMounts(
  mounts: readonly MountSpec[],
  around: MountContext,
): Promise<readonly CheckedMount[]> {
  const checked: CheckedMount[] = []
  for (const { folder: requested, at } of mounts) {
    const { folder, identity } = resolveMount(requested, at, around)
    const what = `the folder for ${at}`
    await refuseSockets(folder, { what, instead: INSTEAD, pipes: true })
    // Only the folder itself is mounted. Files hidden under a mount in it would become visible, and Craik has not
    // checked those.
    if (mountPoints().some((point) => point.startsWith(`${folder}/`)))
      throw new CraikError('usage', `${what} contains another mounted file system`, { hint: INSTEAD })
    checked.push({ folder, at, identity })
  }
  return checked
}

/** Returns what is wrong with a mount according to the kernel. `undefined` when nothing is. */
export function faultInMounted(pid: number, mounts: readonly CheckedMount[]): string | undefined {
  const table = mounts.length === 0 ? [] : mountTable(pid)
  const options = new Map(table.map(({ point, options }) => [point, options]))
  for (const { at, identity } of mounts) {
    if (folderIdentity(lstatSync(`/proc/${pid}/root${at}`, { bigint: true })) !== identity)
      return `${at} is not the requested folder`
    if (!options.get(at)?.includes('ro')) return `${at} is writable`
  }
  return undefined
}

/** Folders of the host that a container can read: looked at before it starts, and again in what was mounted. */
import { lstatSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import type { MountSpec } from '../../backend.ts'
import { folderIdentity } from '../process/inspect-folder.ts'
import { resolveMount } from '../process/workspace.ts'
import { refuseSockets } from '../process/workspace-sockets.ts'
import { mountPoints, mountTable } from './mount-table.ts'
import type { Around } from './prepare-mounts.ts'

const INSTEAD = 'copy the files into the sandbox instead:  craik sandbox cp FOLDER ID:'

/** What tells a folder from another one put in its place. */
export interface CheckedMount extends MountSpec {
  /** As `device:inode`. */
  readonly identity: string
}

export async function checkMounts(
  mounts: readonly MountSpec[],
  around: Around,
): Promise<readonly CheckedMount[]> {
  const checked: CheckedMount[] = []
  for (const { folder: asked, at } of mounts) {
    const { folder, identity } = resolveMount(asked, at, around)
    const what = `the folder for ${at}`
    await refuseSockets(folder, { what, instead: INSTEAD, pipes: true })
    // Shown is the folder alone, so that what a mount in it hides would be seen, and nobody has looked at that.
    if (mountPoints().some((point) => point.startsWith(`${folder}/`)))
      throw new CraikError('usage', `${what} contains another mounted file system`, { hint: INSTEAD })
    checked.push({ folder, at, identity })
  }
  return checked
}

/** What is wrong with one of them as the kernel shows it; undefined when nothing is. */
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

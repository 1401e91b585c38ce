/**
 * Prepares the folder through which a warm container later receives its sandbox's mounts. It is an empty folder of
 * Craik's, mounted so that later mounts in it become visible in the container. The host has it mounted only while it is
 * empty.
 */
import { execFile } from 'node:child_process'
import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CraikError } from '../../../errors.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { HotMountFolders } from '../../backend.ts'
import { SYSTEM_PATH } from '../process/required-programs.ts'
import type { ContainerMount } from './container-config.ts'
import { mountProgram } from './mount-programs.ts'
import { mountPoints, mountTable } from './mount-table.ts'

const run = promisify(execFile)
const OPTIONS = { timeout: 10_000, env: { PATH: SYSTEM_PATH } }

/** The folder for read-only mounts in the sandbox. */
export const MOUNTS_INSIDE = '/mnt'

/**
 * The paths of the hot-mount folder. Mounts in `late` propagate nowhere, so `stage` in it is a place to prepare them.
 * Mounts in `shared` propagate to the container, which sees its two folders.
 */
export function hotMountPaths(folder: string) {
  const hotMountFolder = join(folder, 'late')
  const [stage, shared] = [join(hotMountFolder, 'stage'), join(hotMountFolder, 'shared')]
  return {
    late: hotMountFolder,
    stage,
    shared,
    workspace: join(shared, 'workspace'),
    mounts: join(shared, 'mnt'),
    staged: {
      workspace: join(stage, 'workspace'),
      readOnly: join(stage, 'read-only'),
      exclude: join(stage, 'exclude'),
      mounts: join(stage, 'mnt'),
    },
  }
}

/** Mounts the hot-mount folders, which needs root. `closeHotMounts` unmounts them. */
export async function openHotMounts(
  folder: string,
  wanted: HotMountFolders,
): Promise<readonly ContainerMount[]> {
  const { late: hotMountFolder, stage, shared, workspace, mounts, staged } = hotMountPaths(folder)
  const folders = [
    hotMountFolder,
    stage,
    shared,
    workspace,
    mounts,
    staged.workspace,
    staged.readOnly,
    staged.mounts,
  ]
  for (const path of folders) {
    await mkdir(path)
    await chmod(path, 0o755)
  }
  await mount(['--bind', '--make-private', '--', hotMountFolder, hotMountFolder])
  await mount(['--bind', '--make-shared', '--', shared, shared])
  return hotMounts(folder, wanted)
}

function hotMounts(folder: string, wanted: HotMountFolders): readonly ContainerMount[] {
  const { workspace, mounts } = hotMountPaths(folder)
  const all = [
    ...(wanted.workspace ? [[workspace, INSIDE.workspace] as const] : []),
    ...(wanted.mounts ? [[mounts, MOUNTS_INSIDE] as const] : []),
  ]
  // The folder itself is read-only. Only the mounts on it can be writable.
  return all.map(([source, target]) => ({ type: 'bind', source, target, readOnly: true, follows: true }))
}

/**
 * Returns why a container does not receive mounts from the folder as it must. `undefined` when it sees those mounts and
 * no others.
 */
export function findHotMountFault(pid: number, folder: string, wanted: HotMountFolders): string | undefined {
  const { late: hotMountFolder, shared } = hotMountPaths(folder)
  const here = mountTable('self')
  const tagsAt = (path: string) => here.findLast(({ point }) => point === path)?.tags
  const group = tagsAt(shared)
    ?.find((tag) => tag.startsWith('shared:'))
    ?.slice('shared:'.length)
  // Otherwise the prepared mounts would be visible on the host or elsewhere.
  if (group === undefined || tagsAt(hotMountFolder)?.length !== 0)
    return 'its shared mount folder is not mounted on this machine'
  const inside = mountTable(pid)
  const wrong = hotMounts(folder, wanted).find(({ target }) => {
    const tags = inside.findLast(({ point }) => point === target)?.tags
    return tags?.length !== 1 || tags[0] !== `master:${group}`
  })
  return wrong && `${wrong.target} does not receive mounts from this machine`
}

/** Unmounts the folders, including those of an earlier process. Idempotent. The container keeps its own mounts. */
export async function closeHotMounts(folder: string): Promise<void> {
  const { late: hotMountFolder } = hotMountPaths(folder)
  const points = mountPoints().filter(
    (point) => point === hotMountFolder || point.startsWith(`${hotMountFolder}/`),
  )
  for (const point of points.toReversed()) {
    const umount = mountProgram('umount')
    try {
      await run(umount, ['--', point], OPTIONS).catch(() => run(umount, ['--lazy', '--', point], OPTIONS))
    } catch (cause) {
      throw new CraikError('unavailable', 'cannot unmount the folders of a container', { cause })
    }
  }
}

async function mount(args: readonly string[]): Promise<void> {
  try {
    await run(mountProgram('mount'), args, OPTIONS)
  } catch (cause) {
    throw new CraikError('unavailable', 'cannot mount a folder for hot mounts', { cause })
  }
}

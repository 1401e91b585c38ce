/**
 * Where a container that waits for a sandbox is shown what that sandbox will be given: an empty folder of ours, mounted so
 * that what is mounted in it later is seen inside as well. It is mounted on the host only while nothing is in it.
 */
import { execFile } from 'node:child_process'
import { chmod, mkdir } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CraikError } from '../../../errors.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { HotMountFolders } from '../../backend.ts'
import { SYSTEM_PATH } from '../process/programs.ts'
import type { ContainerMount } from './container-config.ts'
import { mountProgram } from './mount-programs.ts'
import { mountPoints, mountTable } from './mount-table.ts'

const run = promisify(execFile)
const OPTIONS = { timeout: 10_000, env: { PATH: SYSTEM_PATH } }

/** Where mounts are named. */
export const MOUNTS_INSIDE = '/mnt'

/**
 * `late` tells nobody of what is mounted in it, so that `stage` in it is a place to prepare things in. `shared` tells the
 * container; the two folders in it are what the container is shown.
 */
export function hotMountPaths(folder: string) {
  const late = join(folder, 'late')
  const [stage, shared] = [join(late, 'stage'), join(late, 'shared')]
  return {
    late,
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

/** Only root can. What it mounts is unmounted by `closeLate`. */
export async function openHotMounts(
  folder: string,
  wanted: HotMountFolders,
): Promise<readonly ContainerMount[]> {
  const { late, stage, shared, workspace, mounts, staged } = hotMountPaths(folder)
  const folders = [late, stage, shared, workspace, mounts, staged.workspace, staged.readOnly, staged.mounts]
  for (const path of folders) {
    await mkdir(path)
    await chmod(path, 0o755)
  }
  await mount(['--bind', '--make-private', '--', late, late])
  await mount(['--bind', '--make-shared', '--', shared, shared])
  return shownLate(folder, wanted)
}

function shownLate(folder: string, wanted: HotMountFolders): readonly ContainerMount[] {
  const { workspace, mounts } = hotMountPaths(folder)
  const all = [
    ...(wanted.workspace ? [[workspace, INSIDE.workspace] as const] : []),
    ...(wanted.mounts ? [[mounts, MOUNTS_INSIDE] as const] : []),
  ]
  // Nothing is written there but in what is mounted on it.
  return all.map(([source, target]) => ({ type: 'bind', source, target, readOnly: true, follows: true }))
}

/** What is wrong with how a container follows the folder; undefined when what is mounted there is seen inside, and no more. */
export function findHotMountFault(pid: number, folder: string, wanted: HotMountFolders): string | undefined {
  const { late, shared } = hotMountPaths(folder)
  const here = mountTable('self')
  const tagsAt = (path: string) => here.findLast(({ point }) => point === path)?.tags
  const group = tagsAt(shared)
    ?.find((tag) => tag.startsWith('shared:'))
    ?.slice('shared:'.length)
  // Otherwise what is prepared there would be seen here, or elsewhere.
  if (group === undefined || tagsAt(late)?.length !== 0)
    return 'its shared mount folder is not mounted on this machine'
  const inside = mountTable(pid)
  const wrong = shownLate(folder, wanted).find(({ target }) => {
    const tags = inside.findLast(({ point }) => point === target)?.tags
    return tags?.length !== 1 || tags[0] !== `master:${group}`
  })
  return wrong && `${wrong.target} does not receive mounts from this machine`
}

/** Idempotent; also for what an earlier process mounted. What the container was shown stays there. */
export async function closeHotMounts(folder: string): Promise<void> {
  const { late } = hotMountPaths(folder)
  const points = mountPoints().filter((point) => point === late || point.startsWith(`${late}/`))
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

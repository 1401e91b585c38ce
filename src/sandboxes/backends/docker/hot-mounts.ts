/**
 * Mounts folders of the host in a running container. Craik prepares them in a mount namespace that nobody else sees,
 * verifies them there, and mounts them where the container receives mounts. Each mount has its flags and protected
 * files, or Craik does not mount it. The host never mounts them itself, so nothing remains there whenever Craik stops.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { SandboxSpec } from '../../backend.ts'
import { chooseHostUser } from '../process/host-user.ts'
import { findWorkspaceFault } from '../process/verify-workspace.ts'
import { guardWorkspace, type ProtectedName } from '../process/workspace-guard.ts'
import { closeHotMounts, findHotMountFault, hotMountPaths, MOUNTS_INSIDE } from './hot-mount-folder.ts'
import { OpenPaths } from './hot-mount-paths.ts'
import { type Mounting, openStage } from './hot-mount-stage.ts'
import { type FollowingContainer, isSameContainer } from './mount-propagation.ts'
import { mountTable } from './mount-table.ts'
import { faultInMounted } from './mounts.ts'
import {
  type CheckedFolders,
  checkFolders,
  EXCLUDE,
  type MountContext,
  writeOwnExclude,
} from './prepare-mounts.ts'

/** Mounts the folders. If this fails, removing the sandbox instance also removes what it created in the workspace. */
export async function hotMount(
  container: FollowingContainer,
  spec: SandboxSpec,
  around: MountContext,
): Promise<void> {
  const user = chooseHostUser(spec)
  if (user === undefined)
    throw new CraikError('internal', 'only root can mount folders in a running container')
  const folders = await checkFolders(spec, user, around)
  const hotMounts = { workspace: folders.inPlace !== undefined, mounts: folders.mounts.length > 0 }
  const unready = findHotMountFault(container.pid, spec.folder, hotMounts)
  if (unready !== undefined) throw mountsRefusedError(unready)
  const { inPlace, mounts } = folders
  const guarded = inPlace ? guardWorkspace(spec.folder, inPlace, user) : []
  const exclude = inPlace && writeOwnExclude(spec.folder, inPlace.folder)
  await makeMountPoints(spec.folder, folders)
  const { staged, workspace } = hotMountPaths(spec.folder)
  await using stage = await openStage([
    ...(inPlace
      ? [
          { source: inPlace.folder, target: staged.workspace, options: 'rbind,rprivate' },
          { source: staged.workspace, target: staged.readOnly, options: `rbind,${READ_ONLY}` },
        ]
      : []),
    ...(exclude === undefined
      ? []
      : [{ source: exclude, target: staged.exclude, options: `bind,private,${READ_ONLY}` }]),
    ...mounts.map(({ folder, at }) => ({
      source: folder,
      target: join(staged.mounts, basename(at)),
      options: `bind,private,${READ_ONLY}`,
    })),
  ])
  // From this point on, mounts there reach only the container.
  await closeHotMounts(spec.folder)
  const wrong = faultInMounted(
    stage.pid,
    mounts.map((one) => ({ ...one, at: join(staged.mounts, basename(one.at)) })),
  )
  if (wrong !== undefined) throw mountsRefusedError(wrong)
  using held = new OpenPaths(stage.pid)
  if (inPlace && !held.isFolder(staged.workspace, inPlace.identity))
    throw mountsRefusedError('the workspace is not the requested folder')
  await stage.mount(
    [
      ...(inPlace ? protecting(held, staged, guarded, exclude !== undefined) : []),
      ...(inPlace ? [{ source: staged.workspace, target: workspace }] : []),
      ...mounts.map(({ at }) => ({
        source: join(staged.mounts, basename(at)),
        target: join(hotMountPaths(spec.folder).mounts, basename(at)),
      })),
    ],
    held.descriptors,
  )
  const fault = findMountFault(container, folders, guarded)
  if (fault !== undefined) throw mountsRefusedError(fault)
}

/** The same options as for mounts at the start: no device files and no set-user-id programs. */
const READ_ONLY = 'ro,nosuid,nodev'

function mountsRefusedError(fault: string): CraikError {
  return new CraikError('unavailable', `cannot mount the folders of a container: ${fault}`, {
    hint: 'craik doctor',
  })
}

/** Creates mount points in Craik's own folders, where only root can write. */
async function makeMountPoints(folder: string, { mounts }: CheckedFolders): Promise<void> {
  const hotMounts = hotMountPaths(folder)
  await writeFile(hotMounts.staged.exclude, '')
  for (const { at } of mounts)
    for (const parent of [hotMounts.staged.mounts, hotMounts.mounts]) await mkdir(join(parent, basename(at)))
}

/**
 * Returns the mounts that protect files of a workspace. A read-only view of it is mounted name by name over the
 * writable one. Both paths are open descriptors, so nobody who can write to the workspace can redirect a mount. Paths
 * in a repository come before the repository, which is then mounted over itself with all of them.
 */
function protecting(
  held: OpenPaths,
  staged: ReturnType<typeof hotMountPaths>['staged'],
  guarded: readonly ProtectedName[],
  hasExclude: boolean,
): readonly Mounting[] {
  const within = (view: string, { path, identity }: ProtectedName) => held.path(view, path, identity)
  return [
    ...(hasExclude ? [{ source: staged.exclude, target: held.file(staged.readOnly, EXCLUDE) }] : []),
    ...guarded.toReversed().map((one) => ({
      source: within(one.writable ? staged.workspace : staged.readOnly, one),
      target: within(staged.workspace, one),
    })),
  ]
}

/** Inspects the container from the host, as after every start. */
function findMountFault(
  container: FollowingContainer,
  { inPlace, mounts }: CheckedFolders,
  guarded: readonly ProtectedName[],
): string | undefined {
  const { pid } = container
  try {
    const fault =
      (inPlace && findWorkspaceFault(pid, { identity: inPlace.identity, guarded })) ??
      faultInMounted(pid, mounts) ??
      faultInFlags(pid, guarded)
    return isSameContainer(container) ? fault : 'it exited in the meantime'
  } catch (error) {
    return `it cannot be inspected (${(error as NodeJS.ErrnoException).code})`
  }
}

function faultInFlags(pid: number, guarded: readonly ProtectedName[]): string | undefined {
  const table = mountTable(pid)
  const roots = [INSIDE.workspace, MOUNTS_INSIDE]
  const isMounted = (point: string) => roots.some((root) => point === root || point.startsWith(`${root}/`))
  if (table.some(({ point, tags }) => isMounted(point) && tags.some((tag) => tag.startsWith('shared:'))))
    return 'its mounts would propagate to the host'
  const open = guarded.find(({ path, writable }) => {
    const mounted = table.findLast(({ point }) => point === `${INSIDE.workspace}/${path}`)
    return !writable && !mounted?.options.includes('ro')
  })
  return open && `${open.path} in its workspace is writable`
}

/**
 * Shows folders of the host to a container that runs already. They are put together in a mount namespace that nobody else
 * sees, looked at there, and mounted where the container follows: each with its flags and with what is protected in it, or
 * not at all. The host itself never has them mounted, so nothing of them is left whenever it stops.
 */
import { mkdir, writeFile } from 'node:fs/promises'
import { basename, join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { SandboxSpec } from '../../backend.ts'
import { chooseHostUser } from '../process/host-user.ts'
import { faultInWorkspace } from '../process/verify-workspace.ts'
import { type Guarded, guardWorkspace } from '../process/workspace-guard.ts'
import { type FollowingContainer, isSameContainer } from './following.ts'
import { closeHotMounts, findHotMountFault, hotMountPaths, MOUNTS_INSIDE } from './hot-mount-folder.ts'
import { OpenPaths } from './hot-mount-paths.ts'
import { type Mounting, openStage } from './hot-mount-stage.ts'
import { mountTable } from './mount-table.ts'
import { faultInMounted } from './mounts.ts'
import { type Around, type CheckedFolders, checkFolders, EXCLUDE, writeOwnExclude } from './prepare-mounts.ts'

/** Fails with what it made in the workspace left to the place's end. */
export async function mountLate(
  container: FollowingContainer,
  spec: SandboxSpec,
  around: Around,
): Promise<void> {
  const user = chooseHostUser(spec)
  if (user === undefined)
    throw new CraikError('internal', 'only root can mount folders in a running container')
  const folders = await checkFolders(spec, user, around)
  const late = { workspace: folders.inPlace !== undefined, mounts: folders.mounts.length > 0 }
  const unready = findHotMountFault(container.pid, spec.folder, late)
  if (unready !== undefined) throw refused(unready)
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
  // From here on what is mounted there reaches the container alone.
  await closeHotMounts(spec.folder)
  const wrong = faultInMounted(
    stage.pid,
    mounts.map((one) => ({ ...one, at: join(staged.mounts, basename(one.at)) })),
  )
  if (wrong !== undefined) throw refused(wrong)
  using held = new OpenPaths(stage.pid)
  if (inPlace && !held.isFolder(staged.workspace, inPlace.identity))
    throw refused('the workspace is not the requested folder')
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
  const fault = faultInShown(container, folders, guarded)
  if (fault !== undefined) throw refused(fault)
}

/** As the cold mounts are, and nothing on them is a device or gives rights. */
const READ_ONLY = 'ro,nosuid,nodev'

function refused(fault: string): CraikError {
  return new CraikError('unavailable', `cannot mount the folders of a container: ${fault}`, {
    hint: 'craik doctor',
  })
}

/** In folders of ours, which only root can write to. */
async function makeMountPoints(folder: string, { mounts }: CheckedFolders): Promise<void> {
  const late = hotMountPaths(folder)
  await writeFile(late.staged.exclude, '')
  for (const { at } of mounts)
    for (const parent of [late.staged.mounts, late.mounts]) await mkdir(join(parent, basename(at)))
}

/**
 * What protects the names in a workspace: a view of it that cannot be written, mounted name by name over the one that can.
 * Both ends are held, so that whoever may write to the workspace leads neither elsewhere. What lies in a repository comes
 * before the repository, which is mounted over itself with all of that.
 */
function protecting(
  held: OpenPaths,
  staged: ReturnType<typeof hotMountPaths>['staged'],
  guarded: readonly Guarded[],
  hasExclude: boolean,
): readonly Mounting[] {
  const within = (view: string, { path, identity }: Guarded) => held.path(view, path, identity)
  return [
    ...(hasExclude ? [{ source: staged.exclude, target: held.file(staged.readOnly, EXCLUDE) }] : []),
    ...guarded.toReversed().map((one) => ({
      source: within(one.writable ? staged.workspace : staged.readOnly, one),
      target: within(staged.workspace, one),
    })),
  ]
}

/** Looked at from outside, as after every start. */
function faultInShown(
  container: FollowingContainer,
  { inPlace, mounts }: CheckedFolders,
  guarded: readonly Guarded[],
): string | undefined {
  const { pid } = container
  try {
    const fault =
      (inPlace && faultInWorkspace(pid, { identity: inPlace.identity, guarded })) ??
      faultInMounted(pid, mounts) ??
      faultInFlags(pid, guarded)
    return isSameContainer(container) ? fault : 'it exited in the meantime'
  } catch (error) {
    return `it cannot be inspected (${(error as NodeJS.ErrnoException).code})`
  }
}

function faultInFlags(pid: number, guarded: readonly Guarded[]): string | undefined {
  const table = mountTable(pid)
  const roots = [INSIDE.workspace, MOUNTS_INSIDE]
  const isShown = (point: string) => roots.some((root) => point === root || point.startsWith(`${root}/`))
  if (table.some(({ point, tags }) => isShown(point) && tags.some((tag) => tag.startsWith('shared:'))))
    return 'its mounts would propagate to the host'
  const open = guarded.find(({ path, writable }) => {
    const mounted = table.findLast(({ point }) => point === `${INSIDE.workspace}/${path}`)
    return !writable && !mounted?.options.includes('ro')
  })
  return open && `${open.path} in its workspace is writable`
}

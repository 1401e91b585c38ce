/**
 * The sandboxes of a copy of a home have the ids of the original's. The folder of a sandbox says to which of the two
 * homes a process belongs: a home that was moved still has the same folder, a copy has another one.
 */
import { lstatSync, readFileSync, realpathSync } from 'node:fs'
import { basename, dirname, join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { quoteArgument } from '../../../lib/shlex.ts'
import { INSIDE } from '../../../sidecar/protocol.ts'
import type { OtherHome, SandboxSpec } from '../../backend.ts'
import { type MountedAt, mountTable } from '../docker/mount-table.ts'
import { folderIdentity } from './inspect-folder.ts'
import { instanceFolders } from './instance-folders.ts'
import { findProcesses, isOutermost, type ProcessQuery } from './instance-processes.ts'

/** An argument of a sidecar that the sidecar ignores. The host can read it even where it can read nothing else of it. */
export function folderArgument({ id, folder }: Pick<ProcessQuery, 'id' | 'folder'>): string {
  return `${argumentOf(id)}${folderIdentity(lstatSync(folder, { bigint: true }))}`
}

const argumentOf = (id: string) => `--sandbox=${id}@`

/** The other home that a process of a sandbox with this id belongs to; undefined: this one, none, or nothing says so. */
export function otherHomeOf(pid: number, query: Pick<ProcessQuery, 'id' | 'folder'>): OtherHome | undefined {
  return isOrphan(pid)
    ? undefined
    : (otherByMount(pid, query.folder) ?? otherByMark(markOf(pid, query), query))
}

/**
 * Whether the folder of its sandbox was removed, as by a backup that replaced its home. The kernel says so of a mounted
 * folder, so only processes inside show it.
 */
export function isOrphan(pid: number): boolean {
  try {
    const socket = mountTable(pid).find(({ point }) => point === INSIDE.socketFolder)
    return socket?.root.endsWith('//deleted') ?? false
  } catch {
    // It ended, or cannot be inspected.
    return false
  }
}

/** The other home in which a sandbox with this id runs. Does not believe what runs inside, or as somebody else. */
export async function findOtherHome(query: ProcessQuery): Promise<OtherHome | undefined> {
  const orphaned = new Set<string | undefined>()
  const found: { readonly mark: string | undefined; readonly other: OtherHome }[] = []
  await findProcesses(async (pid) => {
    if (!isOutermost(query, pid)) return false
    const mark = markOf(pid, query)
    if (isOrphan(pid)) orphaned.add(mark)
    const other = otherHomeOf(pid, query)
    if (other !== undefined) found.push({ mark, other })
    return false
  })
  // The mark of a process outside is all that says whose it is. The ones inside have the same.
  const others = found.flatMap(({ mark, other }) => (orphaned.has(mark) ? [] : [other]))
  // Only the first process inside also shows where the other home is.
  return others.find(({ path }) => path !== undefined) ?? others[0]
}

function markOf(pid: number, { id }: Pick<ProcessQuery, 'id'>): string | undefined {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
    return words.find((one) => one.startsWith(argumentOf(id)))
  } catch {
    // It ended.
    return undefined
  }
}

function otherByMark(
  mark: string | undefined,
  query: Pick<ProcessQuery, 'id' | 'folder'>,
): OtherHome | undefined {
  try {
    return mark === undefined || mark === folderArgument(query) ? undefined : { path: undefined }
  } catch {
    // This home has no such folder, and so is no copy of one that has.
    return undefined
  }
}

/** With isolation, the folder of the socket is mounted inside. The kernel names it, and nothing inside can change it. */
function otherByMount(pid: number, folder: string): OtherHome | undefined {
  try {
    const own = realpathSync(instanceFolders(folder).socket)
    const seen = mountTable(pid).find(
      ({ point, root }) => point === INSIDE.socketFolder && isSocketOf(own, root),
    )
    return seen && otherThan(own, seen)
  } catch {
    // It ended, or cannot be looked at.
    return undefined
  }
}

function otherThan(own: string, seen: MountedAt): OtherHome | undefined {
  const all = mountTable('self')
  const mount = all
    .filter(({ point }) => point === '/' || own === point || own.startsWith(`${point}/`))
    // Of two at the same point, the later one covers the other.
    .reduce<MountedAt | undefined>(
      (best, one) => (best && best.point.length > one.point.length ? best : one),
      undefined,
    )
  if (mount === undefined) return undefined
  const isOwn = seen.device === mount.device && seen.root === join(mount.root, own.slice(mount.point.length))
  return isOwn ? undefined : { path: pathOf(seen, all) }
}

/** One whose folder was removed belongs to no home: its path does not end so. */
function isSocketOf(own: string, path: string): boolean {
  return path.endsWith(`/${basename(dirname(own))}/${basename(own)}`)
}

/** Where this machine shows the other home; undefined where it does not. */
function pathOf({ device, root }: MountedAt, all: readonly MountedAt[]): string | undefined {
  const mount = all.find(
    (one) => one.device === device && (one.root === '/' || root.startsWith(`${one.root}/`)),
  )
  return mount && homeAbove(join(mount.point, mount.root === '/' ? root : root.slice(mount.root.length)))
}

/** Of `HOME/sandboxes/ID/socket`. */
function homeAbove(socket: string): string {
  return dirname(dirname(dirname(socket)))
}

export function runsInAnotherHome({ id }: Pick<SandboxSpec, 'id'>, { path }: OtherHome): CraikError {
  const where = path === undefined ? '' : ` (${path})`
  return new CraikError(
    'conflict',
    `sandbox ${id} runs in another home${where}; one of the two is a copy of the other`,
    {
      hint:
        path === undefined
          ? 'stop it there first'
          : `stop it there first:  CRAIK_HOME=${quoteArgument(path)} craik sandbox stop ${id}`,
    },
  )
}

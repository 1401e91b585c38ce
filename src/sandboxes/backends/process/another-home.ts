/**
 * Detects sandboxes that run in another home. A copy of a home has the same sandbox ids as the original. The sandbox's
 * folder shows which of the two homes a process belongs to: a moved home keeps the same folder, and a copy has another
 * one.
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

/**
 * Returns an argument that the sidecar ignores. The host can read it even where it can read nothing else about the
 * process.
 */
export function folderArgument({ id, folder }: Pick<ProcessQuery, 'id' | 'folder'>): string {
  return `${argumentOf(id)}${folderIdentity(lstatSync(folder, { bigint: true }))}`
}

const argumentOf = (id: string) => `--sandbox=${id}@`

/**
 * Returns the other home that a process of a sandbox with this id belongs to. `undefined` when it belongs to this home
 * or to none, or when nothing shows the owner.
 */
export function otherHomeOf(pid: number, query: Pick<ProcessQuery, 'id' | 'folder'>): OtherHome | undefined {
  return isOrphan(pid)
    ? undefined
    : (otherByMount(pid, query.folder) ?? otherByMark(markOf(pid, query), query))
}

/**
 * Returns whether the folder of its sandbox was removed, for example by a backup that replaced its home. The kernel
 * reports that for mounted folders, so only processes in the sandbox show it.
 */
export function isOrphan(pid: number): boolean {
  try {
    const socket = mountTable(pid).find(({ point }) => point === INSIDE.socketFolder)
    return socket?.root.endsWith('//deleted') ?? false
  } catch {
    // The process exited, or cannot be inspected.
    return false
  }
}

/**
 * Returns the other home in which a sandbox with this id runs. Ignores what processes in a sandbox, or of other users,
 * claim.
 */
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
  // Only the mark shows which home a process on the host belongs to. The sandbox's own processes have the same mark.
  const others = found.flatMap(({ mark, other }) => (orphaned.has(mark) ? [] : [other]))
  // Only the first process in the sandbox also shows the path of the other home.
  return others.find(({ path }) => path !== undefined) ?? others[0]
}

function markOf(pid: number, { id }: Pick<ProcessQuery, 'id'>): string | undefined {
  try {
    const words = readFileSync(`/proc/${pid}/cmdline`, 'latin1').split('\0')
    return words.find((one) => one.startsWith(argumentOf(id)))
  } catch {
    // The process exited.
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
    // This home has no such folder, so it is not a copy of a home that has one.
    return undefined
  }
}

/**
 * With isolation, the socket folder is mounted in the sandbox. The kernel reports the mount, and nothing in the sandbox
 * can change it.
 */
function otherByMount(pid: number, folder: string): OtherHome | undefined {
  try {
    const own = realpathSync(instanceFolders(folder).socket)
    const seen = mountTable(pid).find(
      ({ point, root }) => point === INSIDE.socketFolder && isSocketOf(own, root),
    )
    return seen && otherThan(own, seen)
  } catch {
    // The process exited, or cannot be inspected.
    return undefined
  }
}

function otherThan(own: string, seen: MountedAt): OtherHome | undefined {
  const all = mountTable('self')
  const mount = all
    .filter(({ point }) => point === '/' || own === point || own.startsWith(`${point}/`))
    // Of two mounts at the same point, the later one covers the earlier one.
    .reduce<MountedAt | undefined>(
      (best, one) => (best && best.point.length > one.point.length ? best : one),
      undefined,
    )
  if (mount === undefined) return undefined
  const isOwn = seen.device === mount.device && seen.root === join(mount.root, own.slice(mount.point.length))
  return isOwn ? undefined : { path: pathOf(seen, all) }
}

/** A socket folder that was removed belongs to no home. Its path has another ending. */
function isSocketOf(own: string, path: string): boolean {
  return path.endsWith(`/${basename(dirname(own))}/${basename(own)}`)
}

/** Returns the path of the other home on this host. `undefined` when no mount shows it. */
function pathOf({ device, root }: MountedAt, all: readonly MountedAt[]): string | undefined {
  const mount = all.find(
    (one) => one.device === device && (one.root === '/' || root.startsWith(`${one.root}/`)),
  )
  return mount && homeAbove(join(mount.point, mount.root === '/' ? root : root.slice(mount.root.length)))
}

/** Expects `HOME/sandboxes/ID/socket`. */
function homeAbove(socket: string): string {
  return dirname(dirname(dirname(socket)))
}

export function otherHomeError({ id }: Pick<SandboxSpec, 'id'>, { path }: OtherHome): CraikError {
  const where = path === undefined ? '' : ` (${path})`
  return new CraikError(
    'conflict',
    `sandbox ${id} runs in another home${where}; one of the two is a copy of the other`,
    {
      hint:
        path === undefined
          ? 'stop the sandbox in the other home first'
          : `stop the sandbox there first:  CRAIK_HOME=${quoteArgument(path)} craik sandbox stop ${id}`,
    },
  )
}

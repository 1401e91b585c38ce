/** The folders of volumes on the host: made private, given to whoever uses them, and removed without following anything. */
import { execFile } from 'node:child_process'
import { type BigIntStats, existsSync } from 'node:fs'
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { CraikError } from '../../errors.ts'
import { findSystemProgram } from '../../lib/host-programs.ts'
import { ensurePrivateFolder, hasPrivateFolder } from '../../lib/private-files.ts'
import type { HostUser, MountedVolume } from '../backend.ts'
import { folderIdentity } from '../backends/process/inspect-folder.ts'
import { SYSTEM_PATH } from '../backends/process/required-programs.ts'
import { removeTree } from '../remove-tree.ts'
import type { ExpectedVolume } from './verify-volumes.ts'
import { VOLUME_NAME_PATTERN } from './volume.ts'

const run = promisify(execFile)
/** Toolchains are a great many small files. */
const OWNER_DEADLINE_MS = 10 * 60_000
const MEASURE_DEADLINE_MS = 5_000
const GONE = '.gone-'
const LABEL = 'volumes folder'

/**
 * Each is there afterwards, closed to everybody but `user`; undefined: whoever runs Craik. Nobody else uses it: it
 * belongs to the sandbox that is about to start.
 */
export async function openVolumes(
  volumes: readonly MountedVolume[],
  user: HostUser | undefined,
): Promise<readonly ExpectedVolume[]> {
  const opened: ExpectedVolume[] = []
  for (const volume of volumes) {
    const { folder, name, at } = volume
    ensurePrivateFolder(dirname(folder), LABEL)
    await making(name, () => mkdir(folder, { mode: 0o700 }))
    const found = await statFolder(volume)
    // Whoever used it before may have opened or closed it.
    await chmod(folder, 0o700)
    if (user !== undefined && !isOf(found, user)) await chownTree(volume, user)
    opened.push({ at, folder, name, identity: folderIdentity(found) })
  }
  return opened
}

async function making(name: string, make: () => Promise<unknown>): Promise<void> {
  try {
    await make()
  } catch (cause) {
    const { code } = cause as NodeJS.ErrnoException
    if (code === 'EEXIST') return
    const full = code === 'ENOSPC' || code === 'EDQUOT'
    throw new CraikError(
      full ? 'disk_full' : 'home_unwritable',
      `cannot create the folder of volume ${name} (${code})`,
      { cause },
    )
  }
}

/** Nothing inside a sandbox can exchange it: that takes the folder above, which none is shown. */
async function statFolder({ folder, name }: Pick<MountedVolume, 'folder' | 'name'>): Promise<BigIntStats> {
  const found = await lstat(folder, { bigint: true })
  if (found.isDirectory()) return found
  throw new CraikError('key_exposed', `the volume ${name} is not a folder`, {
    hint: 'move it out of the volumes folder, then try again',
  })
}

function isOf({ uid, gid }: BigIntStats, user: HostUser): boolean {
  return Number(uid) === user.uid && Number(gid) === user.gid
}

/**
 * All of it, links themselves and not what they lead to. It is root's until the last of it is given, so that a change
 * of owner that was cut off is made again, whoever comes next.
 */
async function chownTree({ folder, name }: MountedVolume, { uid, gid }: HostUser): Promise<void> {
  await chown(folder, 0, 0)
  try {
    await run(program('chown'), ['-R', '-h', '-P', `${uid}:${gid}`, '--', folder], {
      timeout: OWNER_DEADLINE_MS,
      env: {},
    })
  } catch (cause) {
    throw new CraikError('unavailable', `cannot make the sandbox’s user the owner of volume ${name}`, {
      cause,
    })
  }
}

export interface FoundVolume {
  readonly name: string
  readonly folder: string
  readonly createdAtMs: number
}

export async function findVolumes(root: string): Promise<readonly FoundVolume[]> {
  if (!hasPrivateFolder(root, LABEL)) return []
  const found: FoundVolume[] = []
  for (const name of (await readdir(root)).filter((one) => VOLUME_NAME_PATTERN.test(one)).sort()) {
    const folder = join(root, name)
    const stats = await lstat(folder).catch(() => undefined)
    if (stats?.isDirectory()) found.push({ name, folder, createdAtMs: Math.trunc(stats.birthtimeMs) })
  }
  return found
}

/** What it takes on the disk; undefined when that cannot be found out in time. Follows no link, whoever writes there. */
export async function measureVolume(folder: string, until: AbortSignal): Promise<number | undefined> {
  const options = { timeout: MEASURE_DEADLINE_MS, signal: until, env: {} }
  const args = ['-s', '-x', '-P', '-k', '--', folder]
  // It fails where a folder is closed to us, and still tells what the others take.
  const { stdout } = await run(program('du'), args, options).catch((error) => error as { stdout?: string })
  until.throwIfAborted()
  const kib = /^(\d{1,15})\t/.exec(stdout ?? '')?.[1]
  return kib === undefined ? undefined : Number(kib) * 1024
}

/** From now on it is not there, whatever becomes of the rest; the name of what is left to remove, if there was any. */
export async function setAside(root: string, name: string): Promise<string | undefined> {
  const folder = join(root, name)
  if (!hasPrivateFolder(root, LABEL) || !existsSync(folder)) return undefined
  const aside = await mkdtemp(join(root, GONE))
  await rename(folder, join(aside, name))
  return aside
}

/** Only when nothing is being deleted: what an earlier process set aside. */
export async function sweepVolumes(root: string): Promise<void> {
  if (!hasPrivateFolder(root, LABEL)) return
  for (const name of await readdir(root)) if (name.startsWith(GONE)) await removeTree(join(root, name))
}

function program(name: 'chown' | 'du'): string {
  const found = findSystemProgram(name, SYSTEM_PATH)
  if (found === undefined) throw new CraikError('unavailable', `${name} is not installed`)
  return found
}

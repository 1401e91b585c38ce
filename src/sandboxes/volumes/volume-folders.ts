/**
 * Manages the folders of volumes on the host: creates them private, gives them to the sandbox's user, and removes them
 * without following links.
 */
import { execFile } from 'node:child_process'
import { type BigIntStats, existsSync } from 'node:fs'
import { chmod, chown, lstat, mkdir, mkdtemp, readdir, rename } from 'node:fs/promises'
import { dirname, join } from 'node:path'
import { promisify } from 'node:util'
import { CraikError } from '../../errors.ts'
import { findSystemProgram } from '../../lib/host-programs.ts'
import { ensurePrivateFolder, hasPrivateFolder } from '../../lib/private-files.ts'
import { quoteArgument } from '../../lib/shlex.ts'
import type { HostUser, MountedVolume } from '../backend.ts'
import { folderIdentity } from '../backends/process/inspect-folder.ts'
import { SYSTEM_PATH } from '../backends/process/required-programs.ts'
import { removeTree } from '../remove-tree.ts'
import type { ExpectedVolume } from './verify-volumes.ts'
import { VOLUME_NAME_PATTERN } from './volume.ts'

const run = promisify(execFile)
/** Toolchains contain very many small files. */
const OWNER_DEADLINE_MS = 10 * 60_000
const MEASURE_DEADLINE_MS = 5_000
const GONE = '.gone-'
const LABEL = 'volumes folder'

/**
 * Creates the missing folders and closes them to everyone except `user`. `undefined` means the user who runs Craik. No
 * other sandbox uses the volumes, because they belong to the sandbox that is about to start.
 */
export async function openVolumes(
  volumes: readonly MountedVolume[],
  user: HostUser | undefined,
): Promise<readonly ExpectedVolume[]> {
  const opened: ExpectedVolume[] = []
  for (const volume of volumes) {
    const { folder, name, at } = volume
    ensurePrivateFolder(dirname(folder), LABEL)
    await createFolder(name, () => mkdir(folder, { mode: 0o700 }))
    const found = await statFolder(volume)
    // The previous sandbox may have changed the mode.
    await chmod(folder, 0o700)
    if (user !== undefined && !isOf(found, user)) await chownTree(volume, user)
    opened.push({ at, folder, name, identity: folderIdentity(found) })
  }
  return opened
}

async function createFolder(name: string, make: () => Promise<unknown>): Promise<void> {
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

/** No sandbox can replace this folder, because that needs access to the parent folder, which is never mounted. */
async function statFolder({ folder, name }: Pick<MountedVolume, 'folder' | 'name'>): Promise<BigIntStats> {
  const found = await lstat(folder, { bigint: true })
  if (found.isDirectory()) return found
  throw new CraikError('key_exposed', `the volume ${name} is not a folder`, {
    hint: `move ${quoteArgument(folder)} away, then try again`,
  })
}

function isOf({ uid, gid }: BigIntStats, user: HostUser): boolean {
  return Number(uid) === user.uid && Number(gid) === user.gid
}

/**
 * Changes the owner of everything, of links instead of their targets. The folder itself belongs to root until
 * everything in it is changed. So an interrupted change is repeated at the next start.
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

/**
 * Returns the space that the folder uses on the disk. `undefined` when measuring takes too long. Follows no link,
 * whatever the sandbox wrote.
 */
export async function measureVolume(folder: string, until: AbortSignal): Promise<number | undefined> {
  const options = { timeout: MEASURE_DEADLINE_MS, signal: until, env: {} }
  const args = ['-s', '-x', '-P', '-k', '--', folder]
  // `du` fails if it cannot read a folder, but still prints the sum of the others.
  const { stdout } = await run(program('du'), args, options).catch((error) => error as { stdout?: string })
  until.throwIfAborted()
  const kib = /^(\d{1,15})\t/.exec(stdout ?? '')?.[1]
  return kib === undefined ? undefined : Number(kib) * 1024
}

/**
 * Renames the volume, so that it no longer exists even if removing the rest fails. Returns the path that is left to
 * remove. Returns `undefined` if there was no such volume.
 */
export async function setAside(root: string, name: string): Promise<string | undefined> {
  const folder = join(root, name)
  if (!hasPrivateFolder(root, LABEL) || !existsSync(folder)) return undefined
  const aside = await mkdtemp(join(root, GONE))
  await rename(folder, join(aside, name))
  return aside
}

/** Removes what an earlier process set aside. Call it only when no volume is being deleted. */
export async function sweepVolumes(root: string): Promise<void> {
  if (!hasPrivateFolder(root, LABEL)) return
  for (const name of await readdir(root)) if (name.startsWith(GONE)) await removeTree(join(root, name))
}

function program(name: 'chown' | 'du'): string {
  const found = findSystemProgram(name, SYSTEM_PATH)
  if (found === undefined)
    throw new CraikError('unavailable', `${name} is not installed`, { hint: 'apt-get install coreutils' })
  return found
}

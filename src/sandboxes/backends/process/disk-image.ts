/**
 * Creates sandbox disks that are file systems in a file. Such a disk has a fixed size, and the file uses only the space
 * of its content.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { mkdir, mkdtemp, open, rm, stat } from 'node:fs/promises'
import { join } from 'node:path'
import { promisify } from 'node:util'
import { CraikError } from '../../../errors.ts'
import { findSystemProgram } from '../../../lib/host-programs.ts'
import { SYSTEM_PATH } from './required-programs.ts'

const run = promisify(execFile)
const LAZY = 'lazy_itable_init=1,lazy_journal_init=1,nodiscard'
const MKFS_DEADLINE_MS = 60_000
const TRIAL_BYTES = 8 * 1024 * 1024
export const MIN_IMAGE_BYTES = 16 * 1024 * 1024

/** Creates the file system with the folder's content and owners. The file uses only as much space as its content. */
export async function makeDiskImage(path: string, bytes: number, content: string): Promise<void> {
  const mkfs = findSystemProgram('mke2fs', SYSTEM_PATH)
  if (mkfs === undefined)
    throw new CraikError('unavailable', 'mke2fs is not installed', {
      hint: 'apt-get install e2fsprogs',
    })
  const file = await open(path, 'wx', 0o600)
  try {
    await file.truncate(bytes)
  } finally {
    await file.close()
  }
  // The tables stay unwritten, because the new file reads as zeros. A large disk is therefore created as quickly as a
  // small one.
  const options = ['-t', 'ext4', '-q', '-F', '-m', '0', '-d', content, '-E', LAZY]
  try {
    await run(mkfs, [...options, path], { timeout: MKFS_DEADLINE_MS, env: { PATH: SYSTEM_PATH } })
  } catch (cause) {
    throw new CraikError('unavailable', 'cannot create the disk of the sandbox', { cause })
  }
}

/** Returns the space that the image uses on the host. */
export async function measureImage(path: string): Promise<number | undefined> {
  const found = await stat(path).catch(() => undefined)
  return found && found.blocks * 512
}

/**
 * Returns whether this process can create and mount an image. It tries both, in a mount namespace that ends with the
 * trial.
 */
export async function canMountImages(craikHome: string): Promise<boolean> {
  const unshare = findSystemProgram('unshare', SYSTEM_PATH)
  const sh = findSystemProgram('sh', SYSTEM_PATH)
  if (process.getuid?.() !== 0 || unshare === undefined || sh === undefined) return false
  if (!existsSync('/dev/loop-control')) return false
  await mkdir(join(craikHome, 'cache'), { recursive: true, mode: 0o700 })
  const folder = await mkdtemp(join(craikHome, 'cache/disk-'))
  try {
    const [image, empty] = [join(folder, 'image'), join(folder, 'empty')]
    await mkdir(empty)
    await makeDiskImage(image, TRIAL_BYTES, empty)
    const script = 'mount -o loop "$1" "$2" && umount "$2"'
    const args = ['--mount', '--propagation', 'private', '--', sh, '-c', script, 'sh', image, empty]
    await run(unshare, args, { timeout: MKFS_DEADLINE_MS, env: { PATH: SYSTEM_PATH } })
    return true
  } catch {
    return false
  } finally {
    await rm(folder, { recursive: true, force: true })
  }
}

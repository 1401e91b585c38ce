/**
 * Manages a sandbox's disk where the engine sees the host's folders: a plain folder, or a mounted file system of its
 * own.
 */
import { execFile } from 'node:child_process'
import { existsSync } from 'node:fs'
import { chmod, mkdir, rename, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { setTimeout as sleep } from 'node:timers/promises'
import { promisify } from 'node:util'
import { CraikError } from '../../../errors.ts'
import type { HostUser, VolumeSpec } from '../../backend.ts'
import { makeMountPoints } from '../../volumes/mount-points.ts'
import { makeDiskImage } from '../process/disk-image.ts'
import { diskFolders, instanceFolders, writeDisk } from '../process/instance-folders.ts'
import { SYSTEM_PATH } from '../process/required-programs.ts'
import { mountProgram } from './mount-programs.ts'
import { mountPoints } from './mount-table.ts'

const run = promisify(execFile)
const MOUNT_DEADLINE_MS = 30_000
const UNMOUNT_DEADLINE_MS = 10_000
const PAUSE_MS = 250
/** The same options as in the process backend: no device files and no set-user-id programs. */
const MOUNT_OPTIONS = 'loop,nosuid,nodev,noinit_itable,discard'

export interface Disk {
  readonly home: string
  readonly spill: string
  /** Whether the disk has a size limit of its own. */
  readonly isBounded: boolean
}

/**
 * Opens a sandbox's disk. Reuses the disk of a stopped sandbox; otherwise it creates an empty one, with the given size
 * if there is one.
 */
export async function openDisk(
  folder: string,
  user: HostUser,
  bytes: number | undefined,
  volumes: readonly VolumeSpec[] = [],
): Promise<Disk> {
  const disk = await openBareDisk(folder, user, bytes)
  makeMountPoints(disk.home, volumes, process.geteuid?.() === 0 ? user : undefined)
  return disk
}

async function openBareDisk(folder: string, user: HostUser, bytes: number | undefined): Promise<Disk> {
  const { data, image } = instanceFolders(folder)
  await mkdir(data, { recursive: true })
  await chmod(data, 0o755)
  const folders = diskFolders(data)
  const isPlain = !isMounted(data) && existsSync(folders.home)
  if (isPlain) return { ...folders, isBounded: false }
  if (bytes === undefined && !existsSync(image)) {
    await writeDisk(data, user)
    return { ...folders, isBounded: false }
  }
  if (!existsSync(image)) await makeWholeImage(folder, image, bytes!, user)
  if (!isMounted(data)) await mountImage(image, data)
  return { ...folders, isBounded: true }
}

/** Creates the image under its final name only when it is complete. */
async function makeWholeImage(folder: string, image: string, bytes: number, user: HostUser): Promise<void> {
  const [content, temporary] = [join(folder, 'disk'), `${image}.new`]
  for (const left of [content, temporary]) await rm(left, { recursive: true, force: true })
  await mkdir(content)
  await chmod(content, 0o755)
  await writeDisk(content, user)
  await makeDiskImage(temporary, bytes, content)
  await rename(temporary, image)
  await rm(content, { recursive: true })
}

/** Containers need it mounted where the engine looks, which is also where this process looks. */
async function mountImage(image: string, data: string): Promise<void> {
  try {
    await run(mountProgram('mount'), ['-o', MOUNT_OPTIONS, '--', image, data], {
      timeout: MOUNT_DEADLINE_MS,
      env: { PATH: SYSTEM_PATH },
    })
  } catch (cause) {
    throw new CraikError('unavailable', 'cannot mount the disk of the sandbox', { cause })
  }
}

/** Unmounts the disk, including mounts of an earlier process. Idempotent. */
export async function closeDisk(folder: string): Promise<void> {
  const { data } = instanceFolders(folder)
  const endsMs = performance.now() + UNMOUNT_DEADLINE_MS
  while (isMounted(data)) {
    try {
      await run(mountProgram('umount'), ['--', data], {
        timeout: MOUNT_DEADLINE_MS,
        env: { PATH: SYSTEM_PATH },
      })
    } catch (cause) {
      if (performance.now() > endsMs)
        throw new CraikError('unavailable', 'cannot unmount the disk of the sandbox: it is in use', {
          hint: 'stop the programs that use the folder of this sandbox, then try again',
          cause,
        })
      await sleep(PAUSE_MS)
    }
  }
}

function isMounted(path: string): boolean {
  return mountPoints().includes(path)
}

/**
 * Gives the host access to a disk image without showing its files to other processes. A small process mounts the image
 * in its own mount namespace, and the host reads it through that process's root. The process exits when its parent
 * exits, in whatever way, and then the kernel removes the mount and the loop device.
 */
import { spawn } from 'node:child_process'
import { once } from 'node:events'
import { mkdir, rm } from 'node:fs/promises'
import { join } from 'node:path'
import { CraikError } from '../../../errors.ts'
import { findPrograms, SYSTEM_PATH } from './required-programs.ts'

/**
 * Nothing on the disk acts as a device or grants rights. Mounting a disk that was cut off replays its journal, which
 * writes to it.
 */
const MOUNT_OPTIONS = 'loop,nosuid,nodev,noatime,noinit_itable,discard'
const MOUNT_DEADLINE_MS = 60_000
const MAX_SAID = 2_000

/** Reports that the disk is mounted, and waits until the other end of its input is closed. */
const HOLD = `
mount -o ${MOUNT_OPTIONS} "$1" "$2"
echo mounted
cat >/dev/null
umount "$2"`

export interface AttachedDisk {
  /** The top folder of the file system. Valid until `close`. */
  readonly path: string
  /**
   * Unmounts the disk. Afterwards the image contains everything that was written. Fails if that is not so. Idempotent.
   */
  close(): Promise<void>
}

/** Requires root, because only root can mount. No other process may have the image mounted. */
export async function attachImage(image: string, folder: string): Promise<AttachedDisk> {
  const programs = findPrograms(process.env)
  const at = join(folder, 'reached')
  await mkdir(at, { recursive: true, mode: 0o700 })
  const args = ['--mount', '--propagation', 'private', '--', programs.sh, '-euc', HOLD, 'sh', image, at]
  const child = spawn(programs.unshare, args, {
    cwd: '/',
    env: { PATH: SYSTEM_PATH },
    stdio: ['pipe', 'pipe', 'pipe'],
  })
  child.on('error', () => {})
  child.stdin.on('error', () => {})
  let output = ''
  child.stderr.setEncoding('utf8').on('data', (text: string) => {
    output = (output + text).slice(-MAX_SAID)
  })
  const ended = once(child, 'close').then(([code]) => code as number | null)
  ended.catch(() => {})
  const mountError = (cause?: unknown) =>
    new CraikError('unavailable', `cannot mount the disk of the sandbox: ${lastLine(output)}`, {
      hint: 'craik doctor',
      cause,
    })
  let closing: Promise<void> | undefined
  const close = () => {
    closing ??= (async () => {
      child.stdin.end()
      const code = await ended
      await rm(at, { recursive: true, force: true })
      if (code !== 0) throw mountError()
    })()
    return closing
  }
  try {
    const until = AbortSignal.timeout(MOUNT_DEADLINE_MS)
    await Promise.race([
      once(child.stdout, 'data', { signal: until }),
      ended.then(() => {
        throw mountError()
      }),
    ])
  } catch (error) {
    child.kill('SIGKILL')
    await close().catch(() => {})
    throw error instanceof CraikError ? error : mountError(error)
  }
  return { path: `/proc/${child.pid}/root${at}`, close }
}

function lastLine(text: string): string {
  return text.trim().split('\n').at(-1)?.slice(0, 300) || 'no reason reported'
}

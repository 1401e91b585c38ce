/** Verifies, right after its start, that a container sees later mounts. */
import { readlinkSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import type { SandboxSpec } from '../../backend.ts'
import type { DockerHandle } from './handle.ts'
import { findHotMountFault } from './hot-mount-folder.ts'

/**
 * Identifies a container by a process number, which can be reused, and by a mount namespace, which no other container
 * has meanwhile.
 */
export interface FollowingContainer {
  readonly pid: number
  readonly mountNamespace: string
}

/**
 * Returns undefined for a container that does not need hot mounts. Throws when it needs them and does not receive them:
 * its engine can have a separate view of the machine.
 */
export function followingContainer(
  { pid }: DockerHandle,
  { folder, late: hotMounts }: SandboxSpec,
): FollowingContainer | undefined {
  if (hotMounts === undefined) return undefined
  const fault = findHotMountFault(pid, folder, hotMounts)
  if (fault === undefined) return { pid, mountNamespace: mountNamespaceOf(pid) }
  throw notFollowing(fault)
}

export function isSameContainer({ pid, mountNamespace }: FollowingContainer): boolean {
  return mountNamespaceOf(pid) === mountNamespace
}

function notFollowing(why: string): CraikError {
  return new CraikError('unavailable', `cannot mount folders in a running container: ${why}`, {
    details: { follows: false },
  })
}

export function isNotFollowing(error: unknown): boolean {
  return error instanceof CraikError && error.details?.follows === false
}

function mountNamespaceOf(pid: number): string {
  return readlinkSync(`/proc/${pid}/ns/mnt`)
}

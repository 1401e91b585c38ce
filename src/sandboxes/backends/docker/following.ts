/** A container that sees what is mounted for it later: proved of each, when it has just been started. */
import { readlinkSync } from 'node:fs'
import { CraikError } from '../../../errors.ts'
import type { SandboxSpec } from '../../backend.ts'
import type { DockerHandle } from './handle.ts'
import { findHotMountFault } from './hot-mount-folder.ts'

/** By a number that another process may have when this one has ended, and by what none has again meanwhile. */
export interface FollowingContainer {
  readonly pid: number
  readonly mountNamespace: string
}

/** Undefined when it was not to be one. Fails when it was, and is not: its engine may have a view of the machine of its own. */
export function followingContainer(
  { pid }: DockerHandle,
  { folder, late }: SandboxSpec,
): FollowingContainer | undefined {
  if (late === undefined) return undefined
  const fault = findHotMountFault(pid, folder, late)
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

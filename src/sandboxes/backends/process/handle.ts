/** Formats and parses what a later process needs to find a sandbox of this backend again. */
import { z } from 'zod'
import { CraikError } from '../../../errors.ts'
import type { Owner } from '../../../lib/owner.ts'
import { ENFORCEMENTS, type InstanceHandle, type LimitReport } from '../../backend.ts'

const enforcement = z.enum(ENFORCEMENTS)
const pid = z.number().int().positive()

const handleSchema = z.strictObject({
  bootId: z.string(),
  pidNamespace: z.string(),
  innerPid: pid,
  innerStartedAt: z.string(),
  /** The process of bubblewrap. Without isolation it is the sidecar again. */
  outerPid: pid,
  outerStartedAt: z.string(),
  hostUid: z.number().int().nonnegative(),
  memory: enforcement,
  processes: enforcement,
  cpu: enforcement,
  disk: enforcement,
})

export interface ProcessHandle {
  readonly inner: Owner
  readonly outer: Owner
  readonly hostUid: number
  readonly limits: LimitReport
}

export function formatProcessHandle({ inner, outer, hostUid, limits }: ProcessHandle): InstanceHandle {
  return {
    bootId: inner.bootId,
    pidNamespace: inner.pidNamespace,
    innerPid: inner.pid,
    innerStartedAt: inner.startedAt,
    outerPid: outer.pid,
    outerStartedAt: outer.startedAt,
    hostUid,
    ...limits,
  }
}

export function parseProcessHandle(handle: InstanceHandle): ProcessHandle {
  const parsed = handleSchema.safeParse(handle)
  if (!parsed.success)
    throw new CraikError('internal', 'the record of a sandbox does not describe its instance')
  const { bootId, pidNamespace, hostUid, memory, processes, cpu, disk, ...pids } = parsed.data
  return {
    inner: { bootId, pidNamespace, pid: pids.innerPid, startedAt: pids.innerStartedAt },
    outer: { bootId, pidNamespace, pid: pids.outerPid, startedAt: pids.outerStartedAt },
    hostUid,
    limits: { memory, processes, cpu, disk },
  }
}

/** An active sandbox: one that this process manages, with its session, jobs and streams. */
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { AttachedStreams } from './attached-streams.ts'
import type { BoundarySession } from './boundary-session.ts'
import type { JobBook } from './job-book.ts'
import type { SandboxAccount } from './manager-options.ts'
import type { Refusals } from './refuse-inbound.ts'

export interface ActiveSandbox {
  /** The record at the time of acquisition. Only the store has the current state. */
  record: Pick<SandboxRecord, 'id' | 'spec' | 'place'>
  /** The same record, once the sandbox has an owner. Unset while it is warm. */
  owned?: SandboxRecord
  readonly session: BoundarySession
  readonly book: JobBook
  readonly refusals: Refusals
  readonly attached: AttachedStreams
  /** The instance id of the sidecar that the sandbox started with. */
  instance: string | undefined
  /** The sandbox has no owner yet: its record is only that of a warm instance. */
  isWarm: boolean
  /** The sandbox is frozen, so no request is sent to its sidecar. */
  paused: boolean
  /** Craik is stopping the sandbox, so the end of its instance does not make it lost. */
  ending: boolean
  /** The time of the last activity that the reaper has seen. */
  readonly activity: Activity
  /** The logins that this process has installed in the sandbox. */
  accounts?: readonly SandboxAccount[]
  /** The logins of the host that the sandbox did not get. */
  leftOut?: string
  /** The counts that were saved last. */
  saved?: string
  /** The number of ended jobs at the last removal of old ones. */
  forgotAt?: number
}

interface Activity {
  activeAtMs: number
  /** The activity time that is on record. */
  savedAtMs: number
  /** The values at the reaper's last check. */
  uses: number
  cpuMs: number | undefined
}

export interface SandboxAccess {
  /** Throws `not_found` or `sandbox_stopped`, so that a caller can tell them apart. */
  require(id: SandboxId): Promise<ActiveSandbox>
}

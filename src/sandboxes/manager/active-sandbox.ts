/** A sandbox that this process holds, with everything that belongs to holding it. */
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { AttachedStreams } from './attached.ts'
import type { Refusals } from './inbound.ts'
import type { JobBook } from './job-book.ts'
import type { SandboxAccount } from './options.ts'
import type { BoundarySession } from './session.ts'

export interface ActiveSandbox {
  /** As it was when it was taken hold of; its state is the store's to say. */
  record: Pick<SandboxRecord, 'id' | 'spec' | 'place'>
  /** The same once it is somebody's. */
  owned?: SandboxRecord
  readonly session: BoundarySession
  readonly book: JobBook
  readonly refusals: Refusals
  readonly attached: AttachedStreams
  /** Of the sidecar that the sandbox began with. */
  instance: string | undefined
  /** Nobody's sandbox yet: nothing of it is written down. */
  isWarm: boolean
  /** It stands still: its sidecar is not asked for anything. */
  paused: boolean
  /** It is being ended: that its place goes is no loss. */
  ending: boolean
  /** When something last happened in it, as far as the reaper has looked. */
  readonly activity: Activity
  /** The logins that it works with, as far as this process has put them in place. */
  accounts?: readonly SandboxAccount[]
  /** What it was not given of the logins of this machine. */
  leftOut?: string
  /** The counts that were saved last. */
  saved?: string
  /** How many of its jobs had ended when old ones were forgotten last. */
  forgotAt?: number
}

interface Activity {
  activeAtMs: number
  /** What of it is on record. */
  savedAtMs: number
  /** As they were at the last look. */
  uses: number
  cpuMs: number | undefined
}

export interface SandboxHold {
  /** Rejects with `not_found` or `sandbox_stopped`, so that a caller knows which. */
  require(id: SandboxId): Promise<ActiveSandbox>
}

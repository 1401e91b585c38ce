/** A sandbox that this process holds, with everything that belongs to holding it. */
import type { SandboxId } from '../../lib/ids.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { AttachedStreams } from './attached.ts'
import type { Refusals } from './inbound.ts'
import type { JobBook } from './job-book.ts'
import type { Session } from './session.ts'

export interface Held {
  /** As it was when it was taken hold of; its state is the store's to say. */
  readonly record: SandboxRecord
  readonly session: Session
  readonly book: JobBook
  readonly refusals: Refusals
  readonly attached: AttachedStreams
  /** Of the sidecar that the sandbox began with. */
  instance: string | undefined
  /** The counts that were saved last. */
  saved?: string
  /** How many of its jobs had ended when old ones were forgotten last. */
  forgotAt?: number
}

export interface Holding {
  /** Rejects with `not_found` or `sandbox_stopped`, so that a caller knows which. */
  require(id: SandboxId): Promise<Held>
}

/** What a backend can do with the disk of a sandbox as a whole: archive it, and put another one in its place. */
import type { Readable } from 'node:stream'
import type { Packing } from '../lib/safe-tar/pack.ts'
import type { UnpackLimits, UnpackReport } from '../lib/safe-tar/unpack.ts'
import type { InstanceHandle, SandboxSpec } from './backend.ts'

export interface ReadDiskOptions {
  readonly signal: AbortSignal
  readonly limits: UnpackLimits
  /** `path` is relative to the home. */
  readonly exclude: (path: string) => boolean
}

export interface WriteDiskOptions {
  readonly signal: AbortSignal
  readonly limits: UnpackLimits
}

/**
 * An archive holds the home, with the workspace in it unless that is in place: neither `/tmp` nor spilled output. Owners
 * are not in it. What is done here is done by the host, which follows no link of the sandbox's and trusts none of its
 * numbers.
 */
export interface SandboxDisks {
  /** Of a place that runs, by its handle, or of one that does not. `done` lets go of the disk, and has to be called. */
  read(
    spec: SandboxSpec,
    running: InstanceHandle | undefined,
    options: ReadDiskOptions,
  ): Promise<Packing & { finish(): Promise<void> }>
  /** Makes another disk beside the one that is there, if there is one. Nothing uses it yet. */
  write(spec: SandboxSpec, archive: Readable, options: WriteDiskOptions): Promise<UnpackReport>
  /** Only of a place that does not run: what was written becomes its disk, and the one before is kept. */
  exchange(spec: SandboxSpec): Promise<void>
  /** Whether an exchange was neither reverted nor settled. */
  isExchanged(spec: SandboxSpec): Promise<boolean>
  /** The disk before is the disk again, if one was exchanged; what else was written goes. Idempotent. */
  revert(spec: SandboxSpec): Promise<void>
  /** The disk is the one that it is: the one before, and what was written and never used, go. Idempotent. */
  settle(spec: SandboxSpec): Promise<void>
}

/** The operations of a backend on a whole sandbox disk: archive it, and replace it with another one. */
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
 * An archive contains the home, with the workspace unless that is in place. It does not contain `/tmp`, spilled output
 * or owners. The host does all work here. It follows no link of the sandbox and trusts none of its numbers.
 */
export interface SandboxDisks {
  /**
   * Reads the disk of a running instance, by its handle, or of a stopped one. `finish` releases the disk. The caller
   * must call it.
   */
  read(
    spec: SandboxSpec,
    running: InstanceHandle | undefined,
    options: ReadDiskOptions,
  ): Promise<Packing & { finish(): Promise<void> }>
  /** Creates another disk beside the existing one, if there is one. Nothing uses the new disk yet. */
  write(spec: SandboxSpec, archive: Readable, options: WriteDiskOptions): Promise<UnpackReport>
  /** Makes the written disk the current one, and keeps the previous one. The instance must not run. */
  exchange(spec: SandboxSpec): Promise<void>
  /** Returns whether an exchange was neither reverted nor settled. */
  isExchanged(spec: SandboxSpec): Promise<boolean>
  /** Restores the previous disk if one was exchanged, and removes every other written disk. Idempotent. */
  revert(spec: SandboxSpec): Promise<void>
  /** Keeps the current disk. Removes the previous one and those that were written but never used. Idempotent. */
  keepCurrent(spec: SandboxSpec): Promise<void>
}

/** The manager's dependencies: everything outside itself that it uses. */
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { ReceiptLog } from '../../receipts/receipt-log.ts'
import type { LoginFile } from '../../sidecar/protocol.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import type { BackendName, SandboxBackend } from '../backend.ts'
import type { InboundHandler } from '../boundary/boundary.ts'
import type { HarnessStore } from '../harness-package.ts'
import type { AdmissionLimits } from '../lifecycle/admission.ts'
import type { SandboxRecord } from '../lifecycle/sandbox-record.ts'
import type { Refusals } from './refuse-inbound.ts'

/** The backends that this process has. */
export type Backends = Readonly<Partial<Record<BackendName, SandboxBackend>>>

export interface ManagerOptions {
  readonly store: Store
  /** Identifies this process as the owner of the operations that it begins. */
  readonly log: ReceiptLog
  readonly clock: Clock
  readonly home: Home
  readonly backends: Backends
  /** Handles connections from the sandbox. Without it, each one is refused with a denial receipt. */
  readonly inbound?: (
    sandbox: InboundSandbox,
    others: Pick<Refusals, 'handle' | 'countTaken'>,
  ) => InboundHandler
  /** Provides the host's logins to sandboxes. Without it, they get none. */
  readonly logins?: SandboxLogins
  /** Removes what other modules store about a deleted sandbox. May be called more than once. */
  readonly forget?: (record: Pick<SandboxRecord, 'id' | 'operator'>) => Promise<void>
  /** Closes what ends with the manager. */
  readonly closing?: () => Promise<void>
  readonly logger: ManagerLogger
  /** The store of harness packages. Without it, sandboxes get no harnesses. */
  readonly harnesses?: HarnessStore
  /** Returns the value of a secret by its name, for data that leaves the host. The caller wipes it. */
  readonly readSecret?: (name: string, until: AbortSignal) => Promise<Buffer>
  /** Returns the current limits for all sandboxes of this home together. Without it, only their number is limited. */
  readonly admission?: () => Promise<AdmissionLimits>
  /** The limit of warm instances. Without it, the pool starts none. */
  readonly warmPlaces?: number
  /** For tests: the interval of the reaper, and the first pause before a recovery is retried. */
  readonly reaperTickMs?: number
  readonly recoveryPauseMs?: number
  /** For tests: how long no request may arrive before another warm instance starts. */
  readonly poolQuietMs?: number
  /**
   * The environment of the user who started Craik. It names folders, programs and sockets that sandboxes must not
   * write.
   */
  readonly environment?: NodeJS.ProcessEnv
}

/** The sandbox that a connection comes from. */
interface InboundSandbox {
  readonly id: SandboxId
  /** The epoch of the boundary that counts the connection. */
  readonly epoch: string
  /** Returns `undefined` while the instance has no owner. */
  record(): SandboxRecord | undefined
}

/** Gives access to the host's logins, which the manager itself does not read. */
export interface SandboxLogins {
  /**
   * Returns the login files that programs in the sandbox expect, as they are now. If it cannot read them it throws, and
   * the sandbox gets none.
   */
  files(record: LoginOwner, until: AbortSignal): Promise<LoginSetup>
  /**
   * Returns the variables that lead programs in the sandbox to the gateway, at this port in the sandbox. They contain
   * no secret.
   */
  environment(record: LoginOwner, gatewayPort: number): Readonly<Record<string, string>>
  /** Sets the keys from the environment of a user's command. They replace all earlier ones, and stay in memory only. */
  offer(keys: Readonly<Record<string, string>>, until: AbortSignal): Promise<void>
}

/** A login that a sandbox uses, by its name and its owner. */
export interface SandboxAccount {
  readonly id: string
  readonly who: string | null
}

export interface LoginSetup {
  readonly files: readonly LoginFile[]
  readonly accounts: readonly SandboxAccount[]
  /** The logins that the host has but the sandbox does not get. Each is a sentence for the user without secrets. */
  readonly leftOut: readonly string[]
}

export type LoginOwner = Pick<SandboxRecord, 'id' | 'spec' | 'operator' | 'policy_envelope_id'>

/** Receives facts for the user who runs the supervisor. They contain no payloads and no argv. */
export type ManagerLogger = (
  level: 'info' | 'warn' | 'error',
  message: string,
  facts?: Readonly<Record<string, string | number | boolean | undefined>>,
) => void

export function requireBackend(backends: Backends, name: BackendName): SandboxBackend {
  const backend = backends[name]
  if (backend === undefined) throw new CraikError('unavailable', `the ${name} backend is not available`)
  return backend
}

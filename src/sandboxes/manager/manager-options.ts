/** What the manager is given: everything that it touches outside itself. */
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

/** Those that this Craik was put together with. */
export type Backends = Readonly<Partial<Record<BackendName, SandboxBackend>>>

export interface ManagerOptions {
  readonly store: Store
  /** Names this process as the owner of what it begins. */
  readonly log: ReceiptLog
  readonly clock: Clock
  readonly home: Home
  readonly backends: Backends
  /** What answers connections from inside. Without it each is refused, with a denial receipt. */
  readonly inbound?: (
    sandbox: InboundSandbox,
    others: Pick<Refusals, 'handle' | 'countTaken'>,
  ) => InboundHandler
  /** What sandboxes get of the logins of this machine; without it, nothing. */
  readonly logins?: SandboxLogins
  /** What others keep about a sandbox goes with it. May be called more than once. */
  readonly forget?: (record: Pick<SandboxRecord, 'id' | 'operator'>) => Promise<void>
  /** What ends with the manager. */
  readonly closing?: () => Promise<void>
  readonly logger: ManagerLogger
  /** Which agents' command lines there are; without it, none. */
  readonly harnesses?: HarnessStore
  /** The value of a secret by its name, for what leaves this machine; who gets it wipes it. */
  readonly readSecret?: (name: string, until: AbortSignal) => Promise<Buffer>
  /** What the sandboxes of this home may have together at this moment; without it only their number is bounded. */
  readonly admission?: () => Promise<AdmissionLimits>
  /** How many places may wait for a sandbox at most; without it none does. */
  readonly warmPlaces?: number
  /** For tests: how often the reaper looks, and the first pause before another try to recover. */
  readonly reaperTickMs?: number
  readonly recoveryPauseMs?: number
  /** For tests: how long nothing has to be asked for before another place is started. */
  readonly poolQuietMs?: number
  /** Of the one who started Craik; only to know which folders are homes. */
  readonly environment?: NodeJS.ProcessEnv
}

/** Whose a connection from inside is. */
interface InboundSandbox {
  readonly id: SandboxId
  /** Of the boundary that counts the connection. */
  readonly epoch: string
  /** Undefined while it is nobody's. */
  record(): SandboxRecord | undefined
}

/** Knows the logins of this machine, which the manager does not. */
export interface SandboxLogins {
  /** What programs inside look for, now. Throws when that cannot be told; then the sandbox goes without. */
  files(record: LoginOwner, until: AbortSignal): Promise<LoginSetup>
  /** How programs inside find the gateway, which is at this port of theirs. Names no secret. */
  environment(record: LoginOwner, gatewayPort: number): Readonly<Record<string, string>>
  /** Keys from the environment of a person's command: these and no others from now on, and only in memory. */
  offer(keys: Readonly<Record<string, string>>, until: AbortSignal): Promise<void>
}

/** A login that a sandbox works with, by its name and whose it is. */
export interface SandboxAccount {
  readonly id: string
  readonly who: string | null
}

export interface LoginSetup {
  readonly files: readonly LoginFile[]
  readonly accounts: readonly SandboxAccount[]
  /** What it does not get although it is there, each in a sentence for a person; names no secret. */
  readonly leftOut: readonly string[]
}

export type LoginOwner = Pick<SandboxRecord, 'id' | 'spec' | 'operator' | 'policy_envelope_id'>

/** Facts for whoever runs the supervisor; no payloads, no argv. */
export type ManagerLogger = (
  level: 'info' | 'warn' | 'error',
  message: string,
  facts?: Readonly<Record<string, string | number | boolean | undefined>>,
) => void

export function backendCalled(backends: Backends, name: BackendName): SandboxBackend {
  const backend = backends[name]
  if (backend === undefined) throw new CraikError('unavailable', `the ${name} backend is not available`)
  return backend
}

/** What the manager is given: everything that it touches outside itself. */
import { CraikError } from '../../errors.ts'
import type { Clock } from '../../lib/clock.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { ReceiptLog } from '../../receipts/log.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import type { BackendName, SandboxBackend } from '../backend.ts'
import type { InboundHandler } from '../boundary/boundary.ts'
import type { AdmissionLimits } from '../lifecycle/admission.ts'

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
  readonly inbound?: (sandbox: SandboxId, refuse: InboundHandler) => InboundHandler
  readonly logger: ManagerLogger
  /** The value of a secret by its name, for what leaves this machine; who gets it wipes it. */
  readonly readSecret?: (name: string, until: AbortSignal) => Promise<Buffer>
  /** What the sandboxes of this home may have together; without it only their number is bounded. */
  readonly admission?: AdmissionLimits
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

/** Facts for whoever runs the supervisor; no payloads, no argv. */
export type ManagerLogger = (
  level: 'info' | 'warn' | 'error',
  message: string,
  facts?: Readonly<Record<string, string | number | boolean | undefined>>,
) => void

export function backendCalled(backends: Backends, name: BackendName): SandboxBackend {
  const backend = backends[name]
  if (backend === undefined) throw new CraikError('unavailable', `this craik has no ${name} backend`)
  return backend
}

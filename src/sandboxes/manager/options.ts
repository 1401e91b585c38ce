/** What the manager is given: everything that it touches outside itself. */
import type { Clock } from '../../lib/clock.ts'
import type { SandboxId } from '../../lib/ids.ts'
import type { ReceiptLog } from '../../receipts/log.ts'
import type { Home } from '../../store/home.ts'
import type { Store } from '../../store/store.ts'
import type { SandboxBackend } from '../backend.ts'
import type { InboundHandler } from '../boundary/boundary.ts'

export interface ManagerOptions {
  readonly store: Store
  /** Names this process as the owner of what it begins. */
  readonly log: ReceiptLog
  readonly clock: Clock
  readonly home: Home
  readonly backends: Readonly<Record<'process', SandboxBackend>>
  /** What answers connections from inside. Without it each is refused, with a denial receipt. */
  readonly inbound?: (sandbox: SandboxId, refuse: InboundHandler) => InboundHandler
  readonly logger: ManagerLogger
  /** Of the one who started Craik; only to know which folders are homes. */
  readonly environment?: NodeJS.ProcessEnv
}

/** Facts for whoever runs the supervisor; no payloads, no argv. */
export type ManagerLogger = (
  level: 'info' | 'warn' | 'error',
  message: string,
  facts?: Readonly<Record<string, string | number | boolean | undefined>>,
) => void

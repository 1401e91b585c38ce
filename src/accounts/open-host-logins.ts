/** Assembles the broker of this machine from the host environment and the home's files. */
import { existsSync } from 'node:fs'
import type { ReceiptLog } from '../receipts/receipt-log.ts'
import type { Home } from '../store/home.ts'
import { listMountedFolders } from '../store/mounted-folders.ts'
import type { Store } from '../store/store.ts'
import { createBroker, type HostLogins } from './broker.ts'
import type { Overrides } from './overrides.ts'
import { allProbes } from './probes/all.ts'
import { refreshInSubprocess } from './refresh/refresh-subprocess.ts'

export interface HostLoginsOptions {
  readonly home: Home
  /** The user's home folder. */
  readonly userHome: string
  readonly environment: NodeJS.ProcessEnv
  /** Returns the present content of `config/accounts.yaml`. */
  readonly overrides: () => Promise<Overrides>
  readonly store: () => Promise<Store>
  readonly operator: string
  readonly log?: ReceiptLog | undefined
  /** Whether to ask issuers again that refused to renew a login before. */
  readonly asksAgain?: boolean
}

export function openHostLogins(options: HostLoginsOptions): HostLogins {
  const { home, userHome, environment, overrides, store, operator, log, asksAgain = false } = options
  return createBroker({
    home,
    operator,
    log,
    asksAgain,
    overrides,
    refresh: refreshInSubprocess,
    hostEnvironment: {
      userHome,
      environment,
      platform: process.platform,
      nowMs: () => Date.now(),
      mounted: () => listMountedFolders(home, store),
    },
    // A probe must not create a missing database.
    probes: allProbes(home, async () => (existsSync(home.database) ? store() : undefined)),
  })
}

/** The broker of this machine, as a process of Craik's puts it together. */
import { existsSync } from 'node:fs'
import type { ReceiptLog } from '../receipts/log.ts'
import type { Home } from '../store/home.ts'
import { mountedFolders } from '../store/mounted-folders.ts'
import type { Store } from '../store/store.ts'
import { createBroker, type HostLogins } from './broker.ts'
import type { Overrides } from './overrides.ts'
import { allProbes } from './probes/all.ts'
import { refreshInSubprocess } from './refresh/refresh-subprocess.ts'

export interface HostLoginsOptions {
  readonly home: Home
  /** The home folder of the person. */
  readonly userHome: string
  readonly environment: NodeJS.ProcessEnv
  /** What `config/accounts.yaml` says now. */
  readonly overrides: () => Promise<Overrides>
  readonly store: () => Promise<Store>
  readonly operator: string
  readonly log?: ReceiptLog | undefined
  /** Whether issuers are asked again that would not renew a login before. */
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
    surroundings: {
      userHome,
      environment,
      platform: process.platform,
      nowMs: () => Date.now(),
      mounted: () => mountedFolders(home, store),
    },
    // Looking makes no database where there is none.
    probes: allProbes(home, async () => (existsSync(home.database) ? store() : undefined)),
  })
}

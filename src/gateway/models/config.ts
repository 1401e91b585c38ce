/** The providers and failover rules from the config files, which are read again at most every second. */
import { type FailoverPolicy, loadFailoverPolicy } from '../../providers/failover/failover-policy.ts'
import { loadProviders } from '../../providers/load-providers.ts'
import type { ProviderRecord } from '../../providers/provider-record.ts'
import type { Home } from '../../store/home.ts'

const FRESH_MS = 1_000

export interface GatewayConfig {
  readonly records: readonly ProviderRecord[]
  readonly failover: FailoverPolicy | undefined
}

export class ConfigReader {
  readonly #home: Home
  #read: Promise<GatewayConfig> | undefined
  #readAtMs = Number.NEGATIVE_INFINITY

  constructor(home: Home) {
    this.#home = home
  }

  current(): Promise<GatewayConfig> {
    const nowMs = performance.now()
    if (this.#read === undefined || nowMs - this.#readAtMs > FRESH_MS) {
      this.#readAtMs = nowMs
      this.#read = read(this.#home)
      // An invalid file fails every caller until then. The next call reads it again.
      this.#read.catch(() => {
        this.#read = undefined
      })
    }
    return this.#read
  }
}

async function read(home: Home): Promise<GatewayConfig> {
  const records = await loadProviders(home)
  const failover = await loadFailoverPolicy(
    home,
    records.map(({ id }) => id),
  )
  return { records, failover }
}

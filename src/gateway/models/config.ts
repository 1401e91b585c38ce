/** Providers and failover rules as the files say, read anew every second while calls come in. */
import { type FailoverPolicy, loadFailoverPolicy } from '../../providers/failover/policy.ts'
import type { ProviderRecord } from '../../providers/record.ts'
import { loadProviders } from '../../providers/registry.ts'
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
      // A file that does not parse is told to whoever asks, and looked at again by the next.
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

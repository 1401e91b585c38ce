/** The usage of the models that an agent called meanwhile, as the ledger recorded it. */
import type { Receipt } from '../../receipts/schema.ts'
import type { Store } from '../../store/store.ts'

export interface PromptUsage {
  readonly calls: number
  readonly inputTokens: number
  readonly outputTokens: number
  /** Null when a part has no price, such as a subscription. */
  readonly costNanoUsd: number | null
  /** The called providers. */
  readonly providers: readonly string[]
  /** The number of receipts of this sandbox since then, and how many of them are denials. */
  readonly receipts: number
  readonly denied: number
  /** True when a call did not report its usage. The ledger then booked the whole hold. */
  readonly isEstimated: boolean
}

const PAGE = 1000

/** Returns the number of the next receipt. */
export async function receiptsSoFar(store: Store): Promise<number> {
  return store.read(async (tables) => ((await tables.receipts.last())?.seq ?? -1) + 1)
}

/** Returns the usage of the sandbox from a receipt's number on. */
export async function usageSince(store: Store, sandboxId: string, from: number): Promise<PromptUsage> {
  const sum = { calls: 0, inputTokens: 0, outputTokens: 0, receipts: 0, denied: 0 }
  let costNanoUsd: number | null = 0
  let isEstimated = false
  const providers = new Set<string>()
  for (let at = from; ; ) {
    const rows = await store.read((tables) => tables.receipts.scan(at, PAGE))
    for (const { line } of rows) {
      const { kind, links, operation, status, metadata = {} } = (JSON.parse(line) as Receipt).body
      if (links.sandbox_id !== sandboxId) continue
      sum.receipts++
      if (status === 'denied') sum.denied++
      if (kind !== 'budget' || operation !== 'settle') continue
      const { input_tokens, output_tokens, cost_nano_usd, usage_source } = metadata
      sum.calls++
      sum.inputTokens += numberOf(input_tokens)
      sum.outputTokens += numberOf(output_tokens)
      if (usage_source === 'absent') isEstimated = true
      costNanoUsd =
        typeof cost_nano_usd === 'number' && costNanoUsd !== null ? costNanoUsd + cost_nano_usd : null
      if (links.provider_id !== undefined) providers.add(links.provider_id)
    }
    const last = rows.at(-1)
    if (last === undefined || rows.length < PAGE) break
    at = last.seq + 1
  }
  return { ...sum, costNanoUsd, providers: [...providers], isEstimated }
}

function numberOf(value: unknown): number {
  return typeof value === 'number' ? value : 0
}

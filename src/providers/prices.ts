/** What a model costs, from the table that ships with `@pydantic/genai-prices`. It is never fetched. */
import { hash } from 'node:crypto'
import { canonicalJson, type Json } from '../lib/canonical-json.ts'
import { lazy, memoize } from '../lib/memoize.ts'
import type { Price } from './ledger/tokens.ts'
import type { ProviderRecord } from './provider-record.ts'

export interface Priced {
  readonly price: Price
  /** Of the provider's table as the package gives it: `sha256:<hex>`. */
  readonly digest: string
}

type Prices = typeof import('@pydantic/genai-prices')
type Table = NonNullable<ReturnType<Prices['findProvider']>>
type ModelPrice = Readonly<Record<string, PricePart | undefined>>
type PricePart = number | { readonly base: number; readonly tiers: readonly Tier[] }
interface Tier {
  readonly start: number
  readonly price: number
}

/** How the package calls the makers whose models we call directly. */
const TABLES: Readonly<Partial<Record<ProviderRecord['provider'], string>>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  gemini: 'google',
}

/**
 * Null: not known, which is not free. Where a price has tiers, the dearest counts that input of this size can reach;
 * without a size, the dearest of all.
 */
export async function priceOf(
  record: Pick<ProviderRecord, 'provider' | 'metadata'>,
  model: string,
  nowMs: number,
  maxInputTokens = Infinity,
): Promise<Priced | null> {
  const { prices, tableFor } = await loadTables()
  const table = tableFor(record)
  if (table === undefined) return null
  const usage = { input_tokens: 1, output_tokens: 1 }
  const found = prices.calcPrice(usage, model, { provider: table, timestamp: new Date(nowMs) })
  const price = found && integerPrice(found.model_price as ModelPrice, maxInputTokens)
  return price && { price, digest: digestOf(table) }
}

/** More than there are providers. */
const ADDRESSES_MAX = 256

/** The package keeps its tables for the life of the process; finding one among them costs more than all the rest. */
const loadTables = lazy(async () => {
  const prices: Prices = await import('@pydantic/genai-prices')
  const byAddress = memoize((providerApiUrl) => prices.findProvider({ providerApiUrl }), ADDRESSES_MAX)
  const byId = memoize((providerId) => prices.findProvider({ providerId }), ADDRESSES_MAX)
  /** Who is really called decides: a record of one family may point at somebody else's address. */
  const tableFor = ({
    provider,
    metadata,
  }: Pick<ProviderRecord, 'provider' | 'metadata'>): Table | undefined => {
    if (provider === 'fixture') return undefined
    if (typeof metadata.base_url === 'string') return byAddress(metadata.base_url)
    const providerId = TABLES[provider]
    return providerId === undefined ? undefined : byId(providerId)
  }
  return { prices, tableFor }
})

/** A cached token without a price of its own costs what a plain one does. */
function integerPrice(price: ModelPrice, maxInputTokens: number): Price | null {
  const part = (name: string) => nanoUsd(price[name], maxInputTokens)
  const input = part('input_mtok')
  const output = part('output_mtok')
  if (input === undefined || output === undefined) return null
  return {
    inputNanoUsdPerMtok: input,
    cacheReadNanoUsdPerMtok: part('cache_read_mtok') ?? input,
    cacheWriteNanoUsdPerMtok: part('cache_write_mtok') ?? input,
    outputNanoUsdPerMtok: output,
  }
}

/** Rounded up, from the decimal digits: a product of floating-point numbers would not be exact. */
function nanoUsd(part: PricePart | undefined, maxInputTokens: number): number | undefined {
  if (part === undefined) return undefined
  const usd =
    typeof part === 'number'
      ? part
      : Math.max(
          part.base,
          ...part.tiers.filter(({ start }) => start <= maxInputTokens).map((tier) => tier.price),
        )
  const match = /^(\d+)(?:\.(\d+))?$/.exec(decimal(usd))
  if (match === null) return undefined
  const decimals = match[2] ?? ''
  const nano = BigInt(match[1]!) * 1_000_000_000n + BigInt(decimals.slice(0, 9).padEnd(9, '0'))
  return Number(/[1-9]/.test(decimals.slice(9)) ? nano + 1n : nano)
}

/** As people write it: small numbers print themselves with an exponent. */
function decimal(value: number): string {
  const text = String(value)
  return text.includes('e-') ? value.toFixed(20) : text
}

/** As long as the tables themselves. */
const digests = new WeakMap<Table, string>()

function digestOf(table: Table): string {
  const known = digests.get(table)
  if (known !== undefined) return known
  const digest = `sha256:${hash('sha256', canonicalJson(JSON.parse(JSON.stringify(table)) as Json))}`
  digests.set(table, digest)
  return digest
}

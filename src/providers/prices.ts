/** Finds the price of a model in the table that ships with `@pydantic/genai-prices`. Craik never downloads a table. */
import { hash } from 'node:crypto'
import { canonicalJson, type Json } from '../lib/canonical-json.ts'
import { lazy, memoize } from '../lib/memoize.ts'
import type { Price } from './ledger/tokens.ts'
import type { ProviderRecord } from './provider-record.ts'

export interface Priced {
  readonly price: Price
  /** The digest of the provider's table as the package contains it: `sha256:<hex>`. */
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

/** The package's ids of the providers that Craik calls directly. */
const TABLES: Readonly<Partial<Record<ProviderRecord['provider'], string>>> = {
  openai: 'openai',
  anthropic: 'anthropic',
  gemini: 'google',
}

/**
 * Null when the price is unknown, which does not mean free. When a price has tiers, the most expensive tier counts that
 * an input of this size can reach. Without a size, the most expensive of all counts.
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

/** Far above the number of providers. */
const ADDRESSES_MAX = 256

/**
 * The package keeps its tables for the life of the process. Their lookups are cached, because finding a table costs
 * more than all other steps.
 */
const loadTables = lazy(async () => {
  const prices: Prices = await import('@pydantic/genai-prices')
  const byAddress = memoize((providerApiUrl) => prices.findProvider({ providerApiUrl }), ADDRESSES_MAX)
  const byId = memoize((providerId) => prices.findProvider({ providerId }), ADDRESSES_MAX)
  /** The address decides, because a record of one family may point at another provider's address. */
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

/** Cached tokens without their own price cost as much as plain input tokens. */
function integerPrice(price: ModelPrice, maxInputTokens: number): Price | null {
  const part = (name: string) => toNanoUsd(price[name], maxInputTokens)
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

/** Rounds up, and computes from the decimal digits, because a product of floating-point numbers would not be exact. */
function toNanoUsd(part: PricePart | undefined, maxInputTokens: number): number | undefined {
  if (part === undefined) return undefined
  const usd =
    typeof part === 'number'
      ? part
      : Math.max(
          part.base,
          ...part.tiers.filter(({ start }) => start <= maxInputTokens).map((tier) => tier.price),
        )
  const match = /^(\d+)(?:\.(\d+))?$/.exec(toDecimal(usd))
  if (match === null) return undefined
  const decimals = match[2] ?? ''
  const nano = BigInt(match[1]!) * 1_000_000_000n + BigInt(decimals.slice(0, 9).padEnd(9, '0'))
  return Number(/[1-9]/.test(decimals.slice(9)) ? nano + 1n : nano)
}

/** Returns decimal notation, because `String` writes small numbers with an exponent. */
function toDecimal(value: number): string {
  const text = String(value)
  return text.includes('e-') ? value.toFixed(20) : text
}

/** Digests live as long as their tables. */
const digests = new WeakMap<Table, string>()

function digestOf(table: Table): string {
  const known = digests.get(table)
  if (known !== undefined) return known
  const digest = `sha256:${hash('sha256', canonicalJson(JSON.parse(JSON.stringify(table)) as Json))}`
  digests.set(table, digest)
  return digest
}

/**
 * Amounts are whole nano-dollars and tokens. Products are computed in BigInt, rounded up, and refused when they exceed
 * a safe integer.
 */
import { CraikError } from '../../errors.ts'
import type { Usage } from '../conversation.ts'
import type { Price } from './tokens.ts'

const NANO_PER_USD = 1_000_000_000n
export const TOKENS_PER_MTOK = 1_000_000n

/** Returns the highest possible price of an input token. */
export function highestInputPrice(price: Price): number {
  return Math.max(price.inputNanoUsdPerMtok, price.cacheReadNanoUsdPerMtok, price.cacheWriteNanoUsdPerMtok)
}

/** Returns the highest possible cost of a call. */
export function worstCase(price: Price, inputBytes: number, outputTokens: number): number {
  const total =
    BigInt(inputBytes) * BigInt(highestInputPrice(price)) +
    BigInt(outputTokens) * BigInt(price.outputNanoUsdPerMtok)
  return safe(perMillion(total)) ?? tooLarge('the worst case of the call')
}

/** Returns the cost of reported usage. `undefined` when it exceeds what can be counted exactly. */
export function costOf(price: Price, usage: Exclude<Usage, { source: 'absent' }>): number | undefined {
  const { inputTokens, cacheReadTokens, cacheWriteTokens, outputTokens } = usage
  const plain = Math.max(0, inputTokens - cacheReadTokens - cacheWriteTokens)
  return safe(
    perMillion(
      BigInt(plain) * BigInt(price.inputNanoUsdPerMtok) +
        BigInt(cacheReadTokens) * BigInt(price.cacheReadNanoUsdPerMtok) +
        BigInt(cacheWriteTokens) * BigInt(price.cacheWriteNanoUsdPerMtok) +
        BigInt(outputTokens) * BigInt(price.outputNanoUsdPerMtok),
    ),
  )
}

/** Parses `2usd`, `$2` and `0.000001 usd` exactly, with at most nine decimals. */
export function parseUsd(text: string, flag: string): number {
  const match = /^(\$)?(\d{1,12})(?:\.(\d{1,9}))?\s?(usd)?$/i.exec(text.trim())
  if (match === null || (match[1] === undefined) === (match[4] === undefined)) {
    throw new CraikError(
      'usage',
      `cannot parse ${flag} ${JSON.stringify(text.slice(0, 40))}: expected an amount of dollars`,
      {
        hint: 'write it as 2usd, $2 or 0.50usd, with at most nine decimals',
      },
    )
  }
  const nano = BigInt(match[2]!) * NANO_PER_USD + BigInt((match[3] ?? '').padEnd(9, '0'))
  return safe(nano) ?? tooLarge(`${flag} ${text}`)
}

/** Formats an amount exactly, with at least two decimals: `$2.00`, `$0.041`, `$0.000000001`. */
export function formatUsd(nanoUsd: number): string {
  const nano = BigInt(Math.abs(nanoUsd))
  const decimals = String(nano % NANO_PER_USD)
    .padStart(9, '0')
    .replace(/0{1,7}$/, '')
  return `${nanoUsd < 0 ? '-' : ''}$${(nano / NANO_PER_USD).toLocaleString('en')}.${decimals}`
}

/** Formats an amount as the user types it, safe in a shell: `2.00usd`. */
export function formatUsdFlag(nanoUsd: number): string {
  return `${formatUsd(nanoUsd).replace(/[$,]/g, '')}usd`
}

export function formatTokens(tokens: number): string {
  return `${tokens.toLocaleString('en')} token${tokens === 1 ? '' : 's'}`
}

function perMillion(value: bigint): bigint {
  return (value + TOKENS_PER_MTOK - 1n) / TOKENS_PER_MTOK
}

function safe(value: bigint): number | undefined {
  return value <= BigInt(Number.MAX_SAFE_INTEGER) ? Number(value) : undefined
}

function tooLarge(what: string): never {
  throw new CraikError('too_large', `${what} exceeds the maximum of $9,007,199`, {
    hint: 'use a smaller amount',
  })
}

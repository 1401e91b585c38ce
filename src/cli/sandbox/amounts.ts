/** Parses and formats amounts: bytes, cores, counts, times and ports. */
import { CraikError } from '../../errors.ts'
import { formatDuration, parseDuration } from '../../lib/duration.ts'
import type { Bounds } from '../../sandboxes/limit-bounds.ts'

const UNIT_BYTES: Readonly<Record<string, number>> = { k: 2 ** 10, m: 2 ** 20, g: 2 ** 30, t: 2 ** 40 }
const MAX_BYTES = 2 ** 50

/**
 * Parses a number and one unit, such as `512m`, `2g` or `1.5g`, to bytes. A number without a unit is ambiguous, so it
 * is refused.
 */
export function parseBytes(text: string, flag: string, bounds?: Bounds): number {
  const match = /^(\d{1,6}(?:\.\d{1,3})?)([kmgt])(?:i?b)?$/i.exec(text)
  const bytes = match === null ? 0 : Math.floor(Number(match[1]) * UNIT_BYTES[match[2]!.toLowerCase()]!)
  if (bytes > 0 && bounds !== undefined) return requireInBounds(bytes, text, flag, bounds, formatBytesOption)
  if (bytes > 0 && bytes <= MAX_BYTES) return bytes
  throw new CraikError('usage', `${flag} ${quoteText(text)} is not a size`, {
    hint: 'write a number and one unit, such as 512m, 2g or 1.5g',
  })
}

/** Parses cores, such as `2` or `0.5`, to thousandths. */
export function parseCpus(text: string, flag: string, bounds: Bounds): number {
  const millis = /^\d{1,4}(?:\.\d{1,3})?$/.test(text) ? Math.round(Number(text) * 1000) : -1
  if (millis >= 0)
    return requireInBounds(millis, text, flag, bounds, (amount) => (amount / 1000).toLocaleString('en'))
  throw new CraikError('usage', `${flag} ${quoteText(text)} is not a number of cores`, {
    hint: 'write a number such as 2 or 1.5',
  })
}

export function parseCount(text: string, flag: string, bounds: Bounds): number {
  if (/^\d{1,10}$/.test(text))
    return requireInBounds(Number(text), text, flag, bounds, (amount) => amount.toLocaleString('en'))
  throw new CraikError('usage', `${flag} ${quoteText(text)} is not a whole number`, {
    hint: `write a whole number from ${bounds.least} to ${bounds.most.toLocaleString('en')}`,
  })
}

/** Parses a length of time to milliseconds, or `never` to null. */
export function parseSpan(text: string, flag: string, bounds: Bounds): number | null {
  if (text === 'never') return null
  if (text === '0')
    throw new CraikError('usage', `${flag} 0 is ambiguous: it could mean immediately or never`, {
      hint: `use ${flag} never`,
    })
  return requireInBounds(parseDuration(text, flag), text, flag, bounds, formatDuration)
}

function requireInBounds(
  amount: number,
  text: string,
  flag: string,
  { least, most }: Bounds,
  format: (amount: number) => string,
): number {
  if (amount >= least && amount <= most) return amount
  const range = `from ${format(least)} to ${format(most)}`
  throw new CraikError('usage', `${flag} ${quoteText(text)} is too ${amount < least ? 'small' : 'large'}`, {
    hint: `choose a value ${range}`,
  })
}

/** Formats bytes as the user types them: `128m`. */
function formatBytesOption(bytes: number): string {
  for (const [unit, size] of Object.entries(UNIT_BYTES).reverse())
    if (bytes >= size) return `${Math.round((bytes / size) * 10) / 10}${unit}`
  return String(bytes)
}

/** Formats bytes as the user types them, rounded up, so that an option with this value is large enough. */
export function formatBytesOptionUp(bytes: number): string {
  const [unit, size] = Object.entries(UNIT_BYTES).findLast(([, least]) => bytes >= least) ?? ['k', 2 ** 10]
  const value = bytes / size
  return `${value < 10 ? Math.ceil(value * 10) / 10 : Math.ceil(value)}${unit}`
}

/** Returns the option that allows a copy of this size. */
export function allowCopy(bytes: number): string {
  return bytes <= MAX_BYTES
    ? `--max-copy ${formatBytesOptionUp(bytes)}`
    : 'not possible, the maximum is 1024t'
}

/** Parses `8080`, or `8080:3000`: port 8080 in the sandbox, 3000 on the host. Port 0 on the host means any free one. */
export function parsePorts(text: string): { readonly inside: number; readonly host: number } {
  const match = /^(\d{1,5})(?::(\d{1,5}))?$/.exec(text)
  const inside = Number(match?.[1] ?? 0)
  const host = Number(match?.[2] ?? 0)
  if (inside >= 1 && inside <= 65_535 && host <= 65_535) return { inside, host }
  throw new CraikError('usage', `${quoteText(text)} is not a port`, {
    hint: 'write the port in the sandbox, or PORT:HOSTPORT, such as 8080 or 8080:3000',
  })
}

/**
 * Formats bytes short and rounded, for people: `512 B`, `1.5 KB`, `212 MB`. A unit is 1,024 of the one before, as in
 * options.
 */
export function formatBytes(bytes: number): string {
  let value = bytes
  for (const unit of ['B', 'KB', 'MB', 'GB', 'TB']) {
    const rounded = unit === 'B' ? value : oneDecimalBelowTen(value)
    if (rounded < 1024 || unit === 'TB') return `${rounded.toLocaleString('en')} ${unit}`
    value /= 1024
  }
  return `${bytes} B`
}

function oneDecimalBelowTen(value: number): number {
  const tenths = Math.round(value * 10) / 10
  return tenths < 10 ? tenths : Math.round(value)
}

export function formatFileCount(count: number): string {
  return count === 1 ? '1 file' : `${count.toLocaleString('en')} files`
}

/** Quotes what the user typed, short enough for a message. */
export function quoteText(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
}

/** Limits the values in a transcript: times, names, ids and tool inputs. */
import { createHash } from 'node:crypto'
import { TRANSCRIPT_LIMITS } from './transcript-limits.ts'

/** The years 2000 to 2100. An agent cannot have worked at another time. */
const EARLIEST_MS = Date.UTC(2000, 0)
const LATEST_MS = Date.UTC(2100, 0)

/**
 * Parses an ISO time or milliseconds since 1970. Returns undefined for anything else, and for a time outside these
 * years.
 */
export function timeOf(value: unknown): number | undefined {
  const ms = typeof value === 'number' ? value : typeof value === 'string' ? parseInstant(value) : Number.NaN
  if (!Number.isFinite(ms) || ms < EARLIEST_MS || ms >= LATEST_MS) return undefined
  return Math.floor(ms)
}

function parseInstant(text: string): number {
  return text.length <= 40 && /^\d{4}-\d{2}-\d{2}T/.test(text) ? Date.parse(text) : Number.NaN
}

/** Returns one line of limited length, or undefined when it is empty. */
export function nameIn(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  const line = value.slice(0, TRANSCRIPT_LIMITS.nameChars).replace(/\s+/g, ' ').trim()
  return line === '' ? undefined : line
}

/** Returns the id unchanged when it can be typed and be part of a record. Otherwise returns a digest of it. */
export function idIn(value: unknown, otherwise: string): string {
  const text = typeof value === 'string' && value !== '' ? value : otherwise
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(text)) return text
  return `x${createHash('sha256').update(text).digest('hex').slice(0, 31)}`
}

/** Returns a number of tokens. A value that is not a whole number, or is absurdly high, counts as 0. */
export function parseTokens(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value < 1e12 ? value : 0
}

/** Returns a tool's input as text. A string stays as it is. */
export function inputText(value: unknown): string {
  if (typeof value === 'string') return value
  if (value === undefined || value === null) return ''
  if (!isShallow(value, TRANSCRIPT_LIMITS.depth)) return '(nested too deeply to show)'
  return JSON.stringify(value, undefined, 2)
}

function isShallow(value: unknown, depth: number): boolean {
  if (typeof value !== 'object' || value === null) return true
  if (depth === 0) return false
  return Object.values(value).every((inner) => isShallow(inner, depth - 1))
}

/** What a transcript says of itself, brought into bounds: times, names, ids, and what went into a tool. */
import { createHash } from 'node:crypto'
import { TRANSCRIPT_LIMITS } from './transcript-limits.ts'

/** The years 2000 to 2100: another time is no time at which an agent spoke. */
const EARLIEST_MS = Date.UTC(2000, 0)
const LATEST_MS = Date.UTC(2100, 0)

/** An ISO instant or milliseconds since 1970; nothing when it is neither, or no time of our century. */
export function timeOf(value: unknown): number | undefined {
  const ms = typeof value === 'number' ? value : typeof value === 'string' ? parseInstant(value) : Number.NaN
  if (!Number.isFinite(ms) || ms < EARLIEST_MS || ms >= LATEST_MS) return undefined
  return Math.floor(ms)
}

function parseInstant(text: string): number {
  return text.length <= 40 && /^\d{4}-\d{2}-\d{2}T/.test(text) ? Date.parse(text) : Number.NaN
}

/** One line, not endless; nothing when it is empty. */
export function nameIn(value: unknown): string | undefined {
  if (typeof value !== 'string') return undefined
  const line = value.slice(0, TRANSCRIPT_LIMITS.nameChars).replace(/\s+/g, ' ').trim()
  return line === '' ? undefined : line
}

/** An id as it is where it can be typed and be part of a record; otherwise one that is made of it. */
export function idIn(value: unknown, otherwise: string): string {
  const text = typeof value === 'string' && value !== '' ? value : otherwise
  if (/^[A-Za-z0-9][A-Za-z0-9._-]{0,127}$/.test(text)) return text
  return `x${createHash('sha256').update(text).digest('hex').slice(0, 31)}`
}

/** A number of tokens: what is no whole number, or absurd, is none. */
export function parseTokens(value: unknown): number {
  return typeof value === 'number' && Number.isSafeInteger(value) && value >= 0 && value < 1e12 ? value : 0
}

/** What went into a tool, as text. A command by itself is that command. */
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

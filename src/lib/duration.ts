/** Durations and points in time, as users write and read them. */
import { CraikError } from '../errors.ts'

const SECOND_MS = 1000
const DAY_MS = 86_400 * SECOND_MS

const UNIT_MS: Readonly<Record<string, number>> = {
  ms: 1,
  s: SECOND_MS,
  m: 60 * SECOND_MS,
  h: 3600 * SECOND_MS,
  d: DAY_MS,
  w: 7 * DAY_MS,
}

/** Ten years of 365 days. */
const MAX_DURATION_MS = 3650 * DAY_MS

const INSTANT =
  /^(\d{4}-\d{2}-\d{2})(?:T(?:[01]\d|2[0-3]):[0-5]\d(?::[0-5]\d(?:\.\d{1,9})?)?(?:Z|[+-](?:[01]\d|2[0-3]):[0-5]\d))?$/

/** Parses a whole number and one unit, such as `500ms`, `90s`, `15m`, `8h`, `7d` or `2w`. Returns milliseconds. */
export function parseDuration(text: string, flag: string): number {
  const ms = durationMs(text)
  if (ms !== undefined && ms > 0 && ms <= MAX_DURATION_MS) return ms
  const problem =
    ms === undefined
      ? 'expected a duration'
      : ms === 0
        ? 'must be more than zero'
        : 'must be at most ten years'
  throw new CraikError('usage', `cannot parse ${flag} ${quoteShort(text)}: ${problem}`, {
    hint: 'write a whole number and one unit: 500ms, 90s, 15m, 8h, 7d or 2w',
  })
}

/**
 * Parses a point in time. Returns milliseconds since 1970. Accepts an ISO 8601 instant with its zone, a date alone
 * (midnight UTC), or a duration, which means that long before `nowMs`.
 */
export function parseTime(text: string, nowMs: number, what: string): number {
  if (durationMs(text) !== undefined) return nowMs - parseDuration(text, what)
  const date = INSTANT.exec(text)?.[1]
  if (date !== undefined && isCalendarDate(date)) return Date.parse(text)
  throw new CraikError(
    'usage',
    `cannot parse ${what} ${quoteShort(text)}: expected a date, a time or a duration`,
    {
      hint: 'write 2026-01-31, 2026-01-31T09:30:00Z (with a time zone), or a duration before now: 2h, 7d',
    },
  )
}

/** Formats a duration short and rounded, for users: `12 ms`, `1.4 s`, `3 min`, `2 h`, `7 d`. */
export function formatDuration(ms: number): string {
  let value = ms
  for (const [unit, size] of [
    ['ms', 1000],
    ['s', 60],
    ['min', 60],
    ['h', 24],
  ] as const) {
    const rounded = unit === 'ms' ? Math.round(value) : round(value)
    if (rounded < size) return `${rounded} ${unit}`
    value /= size
  }
  return `${round(value)} d`
}

/** Rounds to one decimal below ten, and to none from ten on. */
function round(value: number): number {
  const tenths = Math.round(value * 10) / 10
  return tenths < 10 ? tenths : Math.round(value)
}

function durationMs(text: string): number | undefined {
  const match = /^(0|[1-9]\d{0,14})(ms|s|m|h|d|w)$/.exec(text)
  return match === null ? undefined : Number(match[1]) * UNIT_MS[match[2]!]!
}

/** `Date.parse` turns 30 February into 2 March. A date that does not come back as itself is not a date. */
function isCalendarDate(date: string): boolean {
  const ms = Date.parse(`${date}T00:00:00Z`)
  return !Number.isNaN(ms) && new Date(ms).toISOString().startsWith(date)
}

function quoteShort(text: string): string {
  return JSON.stringify(text.length > 40 ? `${text.slice(0, 40)}…` : text)
}

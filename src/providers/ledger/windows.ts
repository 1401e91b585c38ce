/** Computes the start and end of a budget's window: UTC days, weeks from Monday, months, or all time. */
import type { Period } from '../../store/ledger-tables.ts'

const DAY_MS = 86_400_000
/** 1970-01-05, the first Monday. */
const FIRST_MONDAY_MS = 4 * DAY_MS

export function windowStart(period: Period, nowMs: number): number {
  switch (period) {
    case 'day':
      return Math.floor(nowMs / DAY_MS) * DAY_MS
    case 'week':
      return Math.floor((nowMs - FIRST_MONDAY_MS) / (7 * DAY_MS)) * 7 * DAY_MS + FIRST_MONDAY_MS
    case 'month':
      return monthStart(nowMs, 0)
    case 'life':
      return 0
  }
}

/** Returns null when the window never ends. */
export function windowEnd(period: Period, startMs: number): number | null {
  switch (period) {
    case 'day':
      return startMs + DAY_MS
    case 'week':
      return startMs + 7 * DAY_MS
    case 'month':
      return monthStart(startMs, 1)
    case 'life':
      return null
  }
}

function monthStart(ms: number, later: number): number {
  const date = new Date(ms)
  return Date.UTC(date.getUTCFullYear(), date.getUTCMonth() + later, 1)
}

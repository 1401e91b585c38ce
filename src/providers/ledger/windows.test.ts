import fc from 'fast-check'
import { expect, test } from 'vitest'
import { PERIODS } from '../../store/ledger-tables.ts'
import { windowEnd, windowStart } from './windows.ts'

const at = (text: string) => Date.parse(text)
const iso = (ms: number | null) => (ms === null ? null : new Date(ms).toISOString().slice(0, 16))

test.each([
  ['day', '2026-03-01T23:59:59.999Z', '2026-03-01T00:00', '2026-03-02T00:00'],
  ['week', '2026-03-01T12:00:00Z', '2026-02-23T00:00', '2026-03-02T00:00'],
  ['week', '2026-03-02T00:00:00Z', '2026-03-02T00:00', '2026-03-09T00:00'],
  ['month', '2024-02-29T12:00:00Z', '2024-02-01T00:00', '2024-03-01T00:00'],
  ['month', '2026-12-31T23:59:59Z', '2026-12-01T00:00', '2027-01-01T00:00'],
  ['life', '2026-03-01T12:00:00Z', '1970-01-01T00:00', null],
] as const)('the %s of %s is from %s until %s', (period, now, start, end) => {
  expect(iso(windowStart(period, at(now)))).toBe(start)
  expect(iso(windowEnd(period, windowStart(period, at(now))))).toBe(end)
})

test('every moment is in exactly one window of each period', () => {
  fc.assert(
    fc.property(fc.integer({ min: 0, max: at('2200-01-01T00:00:00Z') }), (nowMs) => {
      for (const period of PERIODS) {
        const start = windowStart(period, nowMs)
        const end = windowEnd(period, start) ?? Infinity
        expect(start).toBeLessThanOrEqual(nowMs)
        expect(nowMs).toBeLessThan(end)
        if (end !== Infinity) expect(windowStart(period, end)).toBe(end)
        expect(windowStart(period, start)).toBe(start)
      }
    }),
  )
})

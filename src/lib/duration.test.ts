import fc from 'fast-check'
import { describe, expect, it } from 'vitest'
import { formatDuration, parseDuration, parseTime } from './duration.ts'

const DAY_MS = 86_400_000

describe('parseDuration', () => {
  it.each([
    ['500ms', 500],
    ['90s', 90_000],
    ['15m', 900_000],
    ['8h', 28_800_000],
    ['7d', 7 * DAY_MS],
    ['2w', 14 * DAY_MS],
    ['1ms', 1],
    ['3650d', 3650 * DAY_MS],
  ])('reads %s', (text, ms) => {
    expect(parseDuration(text, '--timeout')).toBe(ms)
  })

  it.each([
    '',
    '5',
    's',
    '1.5h',
    '-1s',
    '+1s',
    '1 s',
    ' 1s',
    '1s ',
    '1h30m',
    '1H',
    '1y',
    '01s',
    '1e3s',
    '0x1s',
    '١s',
    '0s',
    '0ms',
    '3651d',
    '999999999999999w',
    '9999999999999999999s',
    '1s\n',
  ])('refuses %j and names the flag', (text) => {
    expect(() => parseDuration(text, '--timeout')).toThrow(
      expect.objectContaining({ code: 'usage', message: expect.stringContaining('--timeout') }),
    )
  })

  it('reports what is wrong with a well-formed duration', () => {
    expect(() => parseDuration('0s', '--timeout')).toThrow('must be more than zero')
    expect(() => parseDuration('3651d', '--timeout')).toThrow('must be at most ten years')
  })

  it('does not repeat a long text in full', () => {
    expect(() => parseDuration('x'.repeat(10_000), '--timeout')).toThrow(/^.{0,100}$/)
  })
})

describe('parseTime', () => {
  const now = Date.UTC(2026, 5, 15, 12)

  it.each([
    ['2h', now - 7_200_000],
    ['2026-01-31', Date.UTC(2026, 0, 31)],
    ['2026-01-31T09:30Z', Date.UTC(2026, 0, 31, 9, 30)],
    ['2026-01-31T09:30:05Z', Date.UTC(2026, 0, 31, 9, 30, 5)],
    ['2026-01-31T09:30:05.25Z', Date.UTC(2026, 0, 31, 9, 30, 5, 250)],
    ['2026-01-31T09:30:05.123456789Z', Date.UTC(2026, 0, 31, 9, 30, 5, 123)],
    ['2026-01-31T09:30:00+02:00', Date.UTC(2026, 0, 31, 7, 30)],
    ['2026-01-31T09:30:00-05:30', Date.UTC(2026, 0, 31, 15)],
    ['2024-02-29', Date.UTC(2024, 1, 29)],
  ])('reads %s', (text, ms) => {
    expect(parseTime(text, now, '--since')).toBe(ms)
  })

  it.each([
    '',
    'now',
    'yesterday',
    '2026',
    '2026-01',
    '2026-1-31',
    '20260131',
    '2026-01-31T09:30:00',
    '2026-01-31 09:30Z',
    '2026-02-29',
    '2026-02-30T00:00Z',
    '2026-04-31',
    '2026-13-01',
    '2026-00-10',
    '2026-01-00',
    '2026-01-31T24:00Z',
    '2026-01-31T23:59:60Z',
    '2026-01-31T09:30+24:00',
    '2026-01-31T09:30+2',
    '0s',
    '99999d',
    '2026-01-31Z',
    '1769850000',
  ])('refuses %j and names the flag', (text) => {
    expect(() => parseTime(text, now, '--since')).toThrow(
      expect.objectContaining({ code: 'usage', message: expect.stringContaining('--since') }),
    )
  })

  it('reads back every instant that JavaScript writes', () => {
    const instant = fc.date({
      min: new Date(0),
      max: new Date('9999-12-31T23:59:59.999Z'),
      noInvalidDate: true,
    })
    fc.assert(
      fc.property(instant, (date) => {
        expect(parseTime(date.toISOString(), now, '--since')).toBe(date.getTime())
      }),
    )
  })
})

describe('formatDuration', () => {
  it.each([
    [0, '0 ms'],
    [0.4, '0 ms'],
    [12, '12 ms'],
    [999.6, '1 s'],
    [1400, '1.4 s'],
    [2000, '2 s'],
    [9960, '10 s'],
    [12_300, '12 s'],
    [59_400, '59 s'],
    [59_600, '1 min'],
    [90_000, '1.5 min'],
    [180_000, '3 min'],
    [3_599_000, '1 h'],
    [7_200_000, '2 h'],
    [36 * 3_600_000, '1.5 d'],
    [400 * DAY_MS, '400 d'],
  ])('formats %d ms as %s', (ms, text) => {
    expect(formatDuration(ms)).toBe(text)
  })
})

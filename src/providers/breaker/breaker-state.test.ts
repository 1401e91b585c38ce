import fc from 'fast-check'
import { expect, test } from 'vitest'
import { FAILURE_KINDS } from '../adapters/adapter.ts'
import {
  afterReport,
  type BreakerReport,
  CLOSED,
  FAILURES_TO_OPEN,
  FIRST_COOLDOWN_MS,
  MAX_COOLDOWN_MS,
  MAX_RETRY_AFTER_MS,
  phaseOf,
} from './breaker-state.ts'

const ILL: BreakerReport = { result: 'failed', failure: 'server_error' }
const at = (nowMs: number, isProbe = false) => ({ nowMs, isProbe, cooldownMs: FIRST_COOLDOWN_MS })

function openBreaker(nowMs: number) {
  let state = CLOSED
  for (let i = 0; i < FAILURES_TO_OPEN; i++) state = afterReport(state, ILL, at(nowMs))
  return state
}

test('opens after three failures in a row, and not before', () => {
  const two = afterReport(afterReport(CLOSED, ILL, at(0)), ILL, at(0))
  expect(phaseOf(two, 0)).toBe('closed')
  expect(phaseOf(afterReport(two, ILL, at(0)), 0)).toBe('open')
})

test('a success in between resets the count', () => {
  const two = afterReport(afterReport(CLOSED, ILL, at(0)), ILL, at(0))
  const one = afterReport(afterReport(two, { result: 'answered' }, at(0)), ILL, at(0))
  expect(one.failures).toBe(1)
})

test('is half-open when the cooldown is over, to the millisecond', () => {
  const state = openBreaker(1000)
  expect(phaseOf(state, 1000 + FIRST_COOLDOWN_MS - 1)).toBe('open')
  expect(phaseOf(state, 1000 + FIRST_COOLDOWN_MS)).toBe('half_open')
})

test('a probe that fails doubles the cooldown, up to five minutes', () => {
  let [state, nowMs] = [openBreaker(0), 0]
  const cooldowns: number[] = []
  for (let i = 0; i < 6; i++) {
    cooldowns.push(state.openUntilMs! - nowMs)
    nowMs = state.openUntilMs!
    state = afterReport(state, ILL, at(nowMs, true))
  }
  expect(cooldowns).toEqual([30_000, 60_000, 120_000, 240_000, MAX_COOLDOWN_MS, MAX_COOLDOWN_MS])
})

test('a successful probe closes it and clears its state', () => {
  expect(afterReport(openBreaker(0), { result: 'answered' }, at(40_000, true))).toEqual(CLOSED)
})

test('a rate limit opens it at once until the provider’s Retry-After, for at most an hour', () => {
  const rateLimitedReport = (retryAfterMs: number): BreakerReport => ({
    result: 'failed',
    failure: 'rate_limited',
    retryAfterMs,
  })
  expect(afterReport(CLOSED, rateLimitedReport(7_000), at(100)).openUntilMs).toBe(7_100)
  expect(afterReport(CLOSED, rateLimitedReport(1e12), at(100)).openUntilMs).toBe(100 + MAX_RETRY_AFTER_MS)
  const without = afterReport(CLOSED, { result: 'failed', failure: 'rate_limited' }, at(100))
  expect(without).toMatchObject({ failures: 1, openUntilMs: null })
})

test.each(['unauthorized', 'rejected'] as const)('%s counts as a response: the provider works', (failure) => {
  expect(afterReport(openBreaker(0), { result: 'failed', failure }, at(40_000, true))).toEqual(CLOSED)
})

test('a cancelled probe changes nothing', () => {
  const state = openBreaker(0)
  expect(afterReport(state, { result: 'failed', failure: 'cancelled' }, at(40_000, true))).toBe(state)
  expect(afterReport(state, { result: 'released' }, at(40_000, true))).toBe(state)
})

test('calls that began before it opened change nothing afterwards', () => {
  const state = openBreaker(0)
  expect(afterReport(state, { result: 'answered' }, at(10))).toBe(state)
  expect(afterReport(state, ILL, at(10))).toBe(state)
})

test('never stays open for longer than an hour, whatever is reported', () => {
  const report = fc.oneof(
    fc.constant<BreakerReport>({ result: 'answered' }),
    fc.record({
      result: fc.constant('failed' as const),
      failure: fc.constantFrom(...FAILURE_KINDS),
      retryAfterMs: fc.nat({ max: 2 ** 45 }),
    }),
  )
  fc.assert(
    fc.property(fc.array(fc.tuple(report, fc.boolean(), fc.nat({ max: 100_000 }))), (steps) => {
      let [state, nowMs] = [CLOSED, 0]
      for (const [news, isProbe, passes] of steps) {
        nowMs += passes
        state = afterReport(state, news, at(nowMs, isProbe))
        expect((state.openUntilMs ?? 0) - nowMs).toBeLessThanOrEqual(MAX_RETRY_AFTER_MS)
        if (phaseOf(state, nowMs) !== 'closed') expect(state.lastFailure).not.toBeNull()
      }
    }),
  )
})

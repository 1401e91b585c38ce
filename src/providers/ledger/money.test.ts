import fc from 'fast-check'
import { expect, test } from 'vitest'
import { costOf, formatUsd, parseUsd, worstCase } from './money.ts'

const part = fc.integer({ min: 0, max: 1e13 })
const price = fc.record({
  inputNanoUsdPerMtok: part,
  cacheReadNanoUsdPerMtok: part,
  cacheWriteNanoUsdPerMtok: part,
  outputNanoUsdPerMtok: part,
})

test.each([
  ['2usd', 2_000_000_000],
  ['$2', 2_000_000_000],
  ['0.000001usd', 1000],
  ['$0.000000001', 1],
  ['0.1 USD', 100_000_000],
  ['0usd', 0],
  ['$9007199.254740991', Number.MAX_SAFE_INTEGER],
])('reads %s exactly', (text, nano) => {
  expect(parseUsd(text, '--limit')).toBe(nano)
})

test.each([
  '',
  '2',
  'usd',
  '$',
  '$2usd',
  '-1usd',
  '1e3usd',
  '.5usd',
  '1.usd',
  '0.0000000001usd',
  '1,000usd',
  '2eur',
  'Infinityusd',
  '٢usd',
])('refuses %j', (text) => {
  expect(() => parseUsd(text, '--limit')).toThrow(/expected an amount of dollars/)
})

test('refuses amounts that cannot be counted exactly', () => {
  expect(() => parseUsd('$9007199.254740992', '--limit')).toThrow(/exceeds the maximum/)
})

test('formats every amount so that it parses to the same value', () => {
  fc.assert(
    fc.property(fc.maxSafeNat(), (nano) => {
      expect(parseUsd(formatUsd(nano).replaceAll(',', ''), '--limit')).toBe(nano)
    }),
  )
  expect([0, 1, 41_000_000, 2_000_000_000, 48_200_000_000, -500_000_000].map(formatUsd)).toEqual([
    '$0.00',
    '$0.000000001',
    '$0.041',
    '$2.00',
    '$48.20',
    '-$0.50',
  ])
})

test('the worst case is never less than the cost of usage within its bounds', () => {
  const tokens = fc.integer({ min: 0, max: 200_000 })
  fc.assert(
    fc.property(price, tokens, tokens, tokens, tokens, (each, plain, read, write, output) => {
      const inputTokens = plain + read + write
      const usage = { inputTokens, cacheReadTokens: read, cacheWriteTokens: write, outputTokens: output }
      const cost = costOf(each, { source: 'measured', ...usage })
      expect(cost).toBeLessThanOrEqual(worstCase(each, inputTokens, output))
    }),
  )
})

test('rounds up, so that no paid token is free', () => {
  fc.assert(
    fc.property(fc.integer({ min: 1, max: 1e13 }), fc.integer({ min: 1, max: 1e6 }), (output, tokens) => {
      const each = {
        inputNanoUsdPerMtok: 0,
        cacheReadNanoUsdPerMtok: 0,
        cacheWriteNanoUsdPerMtok: 0,
        outputNanoUsdPerMtok: output,
      }
      const exact = BigInt(output) * BigInt(tokens)
      expect(BigInt(worstCase(each, 0, tokens)) * 1_000_000n).toBeGreaterThanOrEqual(exact)
      expect(worstCase(each, 0, tokens)).toBeGreaterThan(0)
    }),
  )
})

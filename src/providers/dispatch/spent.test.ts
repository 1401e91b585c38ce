import fc from 'fast-check'
import { expect, test } from 'vitest'
import type { Failure } from '../adapters/adapter.ts'
import { type Exchange, notSent } from './exchange.ts'
import { spentOn } from './spent.ts'

const failed = (changes: Partial<Failure> = {}): Exchange['end'] => ({
  kind: 'failed',
  failure: {
    failure: 'broken_stream',
    status: 200,
    retryAfterMs: undefined,
    sent: true,
    refused: false,
    ...changes,
  },
  message: 'it broke',
  hint: '',
})
const exchange = (changes: Partial<Exchange> = {}): Exchange => ({
  ...notSent(failed()),
  sentBytes: 300,
  ...changes,
})
const FACTS = { durationMs: 2000, maxOutputTokens: 1000 }

test('what never left, or was refused, costs nothing', () => {
  expect(spentOn(notSent(failed({ sent: false })), FACTS)).toEqual({ kind: 'nothing' })
  expect(spentOn(exchange({ end: failed({ refused: true }) }), FACTS)).toEqual({ kind: 'nothing' })
  expect(spentOn(notSent({ kind: 'thrown', error: new Error('x') }), FACTS)).toEqual({ kind: 'nothing' })
})

test('an answer without counts has absent usage, never a zero', () => {
  const answered = exchange({ end: { kind: 'answered', stopReason: 'end' } })
  expect(spentOn(answered, FACTS)).toEqual({ kind: 'spent', usage: { source: 'absent' } })
})

test('a silence is booked by how long it lasted, within the cap, and the request by its bytes, as it was held', () => {
  expect(spentOn(exchange(), FACTS)).toMatchObject({
    usage: { source: 'estimated', inputTokens: 300, outputTokens: 400 },
  })
  expect(spentOn(exchange(), { ...FACTS, durationMs: 60_000 })).toMatchObject({
    usage: { outputTokens: 1000 },
  })
})

test('a few bytes after a long time are not all that was written: a model thinks unseen', () => {
  const long = { durationMs: 600_000, maxOutputTokens: 1000 }
  expect(spentOn(exchange({ receivedBytes: 2 }), long)).toMatchObject({ usage: { outputTokens: 1000 } })
  expect(spentOn(exchange({ receivedBytes: 2 }), { ...long, maxOutputTokens: null })).toMatchObject({
    usage: { outputTokens: 120_000 },
  })
})

test('many bytes in a short time are counted by the bytes', () => {
  const quick = { durationMs: 10, maxOutputTokens: 1000 }
  expect(spentOn(exchange({ receivedBytes: 600 }), quick)).toMatchObject({ usage: { outputTokens: 200 } })
})

test('counts that came before the break are kept, and the output only goes up', () => {
  const usage = {
    source: 'measured',
    inputTokens: 77,
    cacheReadTokens: 5,
    cacheWriteTokens: 0,
    outputTokens: 1,
  } as const
  expect(spentOn(exchange({ usage, receivedBytes: 30 }), { ...FACTS, durationMs: 0 })).toEqual({
    kind: 'spent',
    usage: { ...usage, source: 'estimated', outputTokens: 10 },
  })
  const much = { ...usage, outputTokens: 5000 }
  expect(spentOn(exchange({ usage: much }), FACTS)).toMatchObject({ usage: { outputTokens: 5000 } })
})

test('an estimate is at least what the bytes and the time say, and never above what was held', () => {
  fc.assert(
    fc.property(
      fc.integer({ min: 1, max: 1e8 }),
      fc.nat({ max: 1e8 }),
      fc.nat({ max: 1e9 }),
      fc.option(fc.integer({ min: 1, max: 1e6 })),
      (sentBytes, receivedBytes, durationMs, maxOutputTokens) => {
        const result = spentOn(exchange({ sentBytes, receivedBytes }), { durationMs, maxOutputTokens })
        if (result.kind !== 'spent' || result.usage.source !== 'estimated') throw new Error('not estimated')
        const { inputTokens, outputTokens } = result.usage
        expect(inputTokens).toBe(sentBytes)
        const cap = maxOutputTokens ?? Infinity
        expect(outputTokens).toBeLessThanOrEqual(cap)
        expect(outputTokens).toBeGreaterThanOrEqual(Math.min(cap, receivedBytes / 3))
        expect(outputTokens).toBeGreaterThanOrEqual(Math.min(cap, durationMs / 5))
      },
    ),
  )
})

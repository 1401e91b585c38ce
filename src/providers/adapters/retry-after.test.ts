/** Each way in which a provider says when to come back. */
import { describe, expect, it } from 'vitest'
import { retryAfterMs } from './retry-after.ts'

const date = 'Mon, 02 Nov 2026 10:00:00 GMT'

describe('retryAfterMs', () => {
  it.each([
    ['seconds', { 'retry-after': '12' }, 12_000],
    ['fractions of seconds', { 'retry-after': '1.5' }, 1_500],
    ['a date, by the server’s own clock', { date, 'retry-after': 'Mon, 02 Nov 2026 10:00:30 GMT' }, 30_000],
    ['a date that has passed', { date, 'retry-after': 'Mon, 02 Nov 2026 09:00:00 GMT' }, 0],
    ['milliseconds, before seconds', { 'retry-after-ms': '250', 'retry-after': '1' }, 250],
    [
      'Anthropic’s windows, only those used up',
      {
        date,
        'anthropic-ratelimit-requests-remaining': '0',
        'anthropic-ratelimit-requests-reset': '2026-11-02T10:00:20Z',
        'anthropic-ratelimit-tokens-remaining': '100',
        'anthropic-ratelimit-tokens-reset': '2026-11-02T10:05:00Z',
      },
      20_000,
    ],
    [
      'OpenAI’s windows, the longest of those used up',
      {
        'x-ratelimit-remaining-requests': '0',
        'x-ratelimit-reset-requests': '120ms',
        'x-ratelimit-remaining-tokens': '0',
        'x-ratelimit-reset-tokens': '6m0s',
      },
      360_000,
    ],
    ['no more than a day', { 'retry-after': '99999999' }, 86_400_000],
    ['nothing', {}, undefined],
    ['nonsense', { 'retry-after': 'soon' }, undefined],
    ['a negative number', { 'retry-after': '-5' }, undefined],
  ])('reads %s', (_, headers, expected) => {
    expect(retryAfterMs(headers)).toBe(expected)
  })

  it('reads the delay in the body of a Gemini error', () => {
    expect(retryAfterMs({}, '38s')).toBe(38_000)
    expect(retryAfterMs({}, '')).toBeUndefined()
  })
})

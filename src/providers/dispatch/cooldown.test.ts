import { expect, test } from 'vitest'
import type { Act } from '../../../test/wire/wire-server.ts'
import { HELLO, team } from '../dispatch.fixture.ts'
import { replayReadiness } from './readiness.ts'

test('after three failures the provider is left alone, then tried once, then used again', async () => {
  const ill: Act = { kind: 'refuse', status: 503 }
  await using run = await team(ill, ill, ill, HELLO)
  for (let i = 0; i < 3; i++) expect(await run.call()).toMatchObject({ failure: 'overloaded' })
  const refused = await run.call()
  expect(refused).toMatchObject({
    outcome: 'denied',
    by: 'provider',
    rule: 'provider.cooling_down',
    retryAtMs: run.at.clock.nowMs() + 30_000,
  })
  const [denial, ...more] = await run.at.receiptsOf(refused)
  expect([denial?.kind, denial?.status, more]).toEqual(['denial', 'blocked', []])
  expect(await replayReadiness(denial!)).toBe('agrees')
  expect(run.server.requests).toHaveLength(3)
  run.at.clock.advance(30_000)
  expect(await run.call()).toMatchObject({ outcome: 'answered' })
  expect(await run.at.store.tables.breakers.list()).toEqual([])
})

test('a probe that policy denies is given back', async () => {
  const ill: Act = { kind: 'refuse', status: 503 }
  await using run = await team(ill, ill, ill, HELLO)
  for (let i = 0; i < 3; i++) await run.call()
  run.at.clock.advance(30_000)
  expect(await run.call({ grantFor: async () => undefined })).toMatchObject({ by: 'policy' })
  expect(await run.at.store.tables.breakers.list()).toMatchObject([
    { lastFailure: 'overloaded', probe: null },
  ])
  expect(await run.call()).toMatchObject({ outcome: 'answered' })
})

test('a rate limit is waited out for as long as the provider asks', async () => {
  await using run = await team({ kind: 'refuse', status: 429, headers: { 'retry-after': '7' } }, HELLO)
  await run.call()
  expect(await run.call()).toMatchObject({
    rule: 'provider.cooling_down',
    retryAtMs: run.at.clock.nowMs() + 7000,
  })
  run.at.clock.advance(7000)
  expect(await run.call()).toMatchObject({ outcome: 'answered' })
})

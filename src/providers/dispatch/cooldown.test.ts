import { expect, test } from 'vitest'
import type { Act } from '../../../test/wire/wire-server.ts'
import { CraikError } from '../../errors.ts'
import { breakerReport } from '../breaker/tokens.ts'
import { type CallScene, HELLO, modelCall, TEAM, team } from '../dispatch.fixture.ts'
import { callModel } from '../dispatch.ts'
import type { ModelCall } from '../dispatch-types.ts'
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
    hint: expect.stringContaining('craik provider failover reset provider_'),
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
  expect(await run.at.store.tables.breakers.list()).toMatchObject([{ lastFailure: 'overloaded', probes: [] }])
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

/** A call at a time when the breaker's row cannot be written. */
async function callWithoutBreaker(at: CallScene, changes: Partial<ModelCall> = {}) {
  const { store } = at.place
  const write: typeof store.write = (procedure, input) =>
    procedure.name === breakerReport.name
      ? Promise.reject(new CraikError('disk_full', 'no room for the breaker'))
      : store.write(procedure, input)
  const place = { ...at.place, store: { ...store, write } }
  return callModel(place, await modelCall(at, { providerId: TEAM, ...changes }))
}

test('a breaker that cannot be written hides neither an answer that was paid for, nor a failure, nor an error', async () => {
  await using run = await team({ kind: 'refuse', status: 503 }, HELLO, HELLO)
  expect(await callWithoutBreaker(run.at)).toMatchObject({ outcome: 'failed', failure: 'overloaded' })
  await run.at.store.tables.breakers.put({
    providerId: TEAM,
    failures: 1,
    openings: 0,
    openUntilMs: null,
    lastFailure: 'overloaded',
    probes: [],
    updatedAtMs: run.at.clock.nowMs(),
  })
  expect(await callWithoutBreaker(run.at)).toMatchObject({ outcome: 'answered', text: 'hello' })
  const onText = () => {
    throw new Error('the screen is gone')
  }
  await expect(callWithoutBreaker(run.at, { onText })).rejects.toThrow('the screen is gone')
})

import fc from 'fast-check'
import { expect, test } from 'vitest'
import { listQuotas } from './budgets-and-quotas.ts'
import { type Allowed, deadOwner, measuredUsage, openLedger, replayAll } from './ledger.fixture.ts'

test('requests per minute are counted over an exact sliding minute', async () => {
  const book = await openLedger()
  const id = await book.quota({ requests_per_minute: 2 })
  const start = book.clock.nowMs()
  await book.admitAllowed()
  book.clock.advance(10_000)
  await book.admitAllowed()
  book.clock.advance(10_000)
  expect(await book.admit()).toMatchObject({
    effect: 'deny',
    by: 'quota',
    rule: 'quota.requests_per_minute',
    subject: id,
    reason: 'quota_provider_openai had 2 of 2 requests in the last minute; available again in 40 s',
    retryAtMs: start + 60_000,
  })
  book.clock.advance(39_999)
  expect(await book.admit()).toMatchObject({ effect: 'deny', retryAtMs: start + 60_000 })
  book.clock.advance(1)
  await book.admitAllowed()
  expect(await book.admit()).toMatchObject({ effect: 'deny', retryAtMs: start + 70_000 })
  expect(await replayAll(book)).toMatchObject({ differ: [] })
})

test('tokens per minute reserve the input and the output limit, and settlement corrects them', async () => {
  const book = await openLedger()
  await book.quota({ tokens_per_minute: 10_000 })
  const start = book.clock.nowMs()
  const first = await book.admitAllowed({ maxOutputTokens: 4000 })
  book.clock.advance(1000)
  await book.admitAllowed({ maxOutputTokens: 3000 })
  expect(await book.admit()).toMatchObject({ rule: 'quota.tokens_per_minute', retryAtMs: start + 60_000 })
  await book.settle(first, measuredUsage(500, 500))
  // The input and 4,000 more tokens fit, so the output limit is lowered to 4,000.
  expect((await book.admitAllowed({ maxOutputTokens: 128_000 })).hold).toMatchObject({
    maxOutputTokens: 4000,
    lowered: true,
  })
  expect(await replayAll(book)).toMatchObject({ differ: [] })
})

test('a call that is too large for any minute gets no retry time', async () => {
  const book = await openLedger()
  await book.quota({ tokens_per_minute: 1500 })
  const denied = await book.admit()
  expect(denied).toMatchObject({ rule: 'quota.tokens_per_minute' })
  expect(denied).not.toHaveProperty('retryAtMs')
})

test('concurrent requests free their slot when they end, or at once when their owner is dead', async () => {
  const book = await openLedger()
  await book.quota({ concurrent: 2 })
  await book.admitAllowed({}, deadOwner())
  const call = await book.admitAllowed()
  await book.admitAllowed()
  expect(await book.admit()).toMatchObject({
    rule: 'quota.concurrent',
    reason: 'quota_provider_openai has 2 of 2 requests running; available again when one of them ends',
  })
  await book.settle(call, measuredUsage(1, 1))
  await book.admitAllowed()
  expect(await replayAll(book)).toMatchObject({ differ: [] })
})

test('a session has its own quota, and both quotas apply', async () => {
  const book = await openLedger()
  await book.quota({ requests_per_minute: 3 })
  await book.quota({ scope_kind: 'session', scope_ref: 'agent_1', requests_per_minute: 1 })
  await book.admitAllowed()
  expect(await book.admit()).toMatchObject({ subject: 'quota_session_agent_1' })
  await book.admitAllowed({}, undefined, 'agent_2')
  await book.admitAllowed({}, undefined, 'agent_2')
  expect(await book.admit({}, undefined, 'agent_2')).toMatchObject({ subject: 'quota_provider_openai' })
})

test('calls from before the quota was set count as well', async () => {
  const book = await openLedger()
  await book.admitAllowed()
  await book.quota({ requests_per_minute: 1 })
  expect(await book.admit()).toMatchObject({ rule: 'quota.requests_per_minute' })
})

test('a denial by quota is one receipt that replay can check', async () => {
  const book = await openLedger()
  await book.quota({ requests_per_minute: 0 })
  const before = (await book.store.bodies()).length
  expect(await book.admit()).not.toHaveProperty('retryAtMs')
  expect((await book.store.bodies()).slice(before)).toMatchObject([
    {
      kind: 'budget',
      capability: 'quota.reserve',
      status: 'denied',
      decision: {
        rule: 'quota.requests_per_minute',
        replayable: true,
        input: { schema: 'craik.quota_decision/1' },
      },
      metadata: { subject: 'quota_provider_openai' },
    },
  ])
})

test('the retry time is exact: a retry one millisecond earlier is denied', async () => {
  const step = fc.record({
    waitMs: fc.integer({ min: 0, max: 30_000 }),
    cap: fc.integer({ min: 1, max: 3000 }),
    used: fc.option(fc.integer({ min: 0, max: 3000 })),
  })
  const limits = fc.record({
    requests_per_minute: fc.option(fc.integer({ min: 1, max: 4 })),
    tokens_per_minute: fc.integer({ min: 2100, max: 9000 }),
  })
  await fc.assert(
    fc.asyncProperty(limits, fc.array(step, { minLength: 1, maxLength: 15 }), async (quota, steps) => {
      const book = await openLedger()
      await book.quota(quota)
      const admitted: { atMs: number; tokens: number }[] = []
      for (const { waitMs, cap, used } of steps) {
        book.clock.advance(waitMs)
        let output = await book.admit({ maxOutputTokens: cap })
        if (output.effect === 'deny') {
          const retryAtMs = (output as { retryAtMs?: number }).retryAtMs!
          expect(retryAtMs).toBeGreaterThan(book.clock.nowMs())
          book.clock.advance(retryAtMs - 1 - book.clock.nowMs())
          expect(await book.admit({ maxOutputTokens: cap })).toMatchObject({ effect: 'deny' })
          book.clock.advance(1)
          output = await book.admit({ maxOutputTokens: cap })
          // The other of the two limits may deny the call by then.
          if (output.effect === 'deny') continue
        }
        const call = output as Allowed
        const entry = { atMs: book.clock.nowMs(), tokens: 1000 + call.hold.maxOutputTokens! }
        admitted.push(entry)
        if (used !== null) {
          await book.settle(call, measuredUsage(0, used))
          entry.tokens = used
        }
        const recent = admitted.filter(({ atMs }) => atMs > book.clock.nowMs() - 60_000)
        expect(recent.length).toBeLessThanOrEqual(quota.requests_per_minute ?? Infinity)
        const [facts] = await listQuotas(book.store, book.clock.nowMs())
        expect(facts).toMatchObject({
          requests: recent.length,
          tokens: recent.reduce((sum, { tokens }) => sum + tokens, 0),
        })
      }
      expect((await replayAll(book)).differ).toEqual([])
    }),
    { numRuns: 40 },
  )
})

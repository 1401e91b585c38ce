import { expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import { systemClock } from '../../lib/clock.ts'
import { ModelWatch } from './model-watch.ts'

const SANDBOX = 'sbx_one'

/**
 * Creates a sandbox whose agent made calls with these results: `passed`, a failure, or the rule that denied the call.
 */
async function after(...calls: readonly string[]) {
  const store = inProcessStore(systemClock)
  const ask = async (call: string) => {
    const about = {
      operator: 'local-user:ada',
      capability: 'model.chat',
      operation: 'chat',
      target: 'provider_openai',
    }
    const links = { sandbox_id: SANDBOX }
    if (call.includes('.')) {
      const metadata = { last_failure: 'unreachable' }
      const decision = { effect: 'deny' as const, rule: call, missing: [], replayable: false }
      await store.log.append({ kind: 'denial', status: 'denied', ...about, links, decision, metadata })
      return
    }
    const open = await store.log.begin({ kind: 'provider_action', ...about, links })
    if (call === 'underway') return
    if (call === 'passed') await open.end({ status: 'passed' })
    else await open.end({ status: 'failed', metadata: { failure: call } })
  }
  for (const call of calls) await ask(call)
  const clock = { now: 0, nowMs: () => clock.now }
  const watchOf = (sandboxId: string) =>
    new ModelWatch(store, { name: 'codex', loginCommand: 'codex login' }, sandboxId, 0, clock)
  return { watch: watchOf(SANDBOX), other: watchOf('sbx_other'), clock, ask }
}

it.each([
  [['passed', 'unauthorized', 'unauthorized'], 'no_login'],
  [['budget.exhausted', 'budget.exhausted'], 'budget_exceeded'],
  [['rate_limited', 'overloaded', 'rate_limited', 'rate_limited', 'rate_limited'], 'quota_exceeded'],
  [['gateway.no_credentials', 'gateway.no_credentials'], 'denied'],
  [['unauthorized', 'gateway.credential'], 'no_login'],
  [['default_deny.x', 'default_deny.x'], 'denied'],
  [Array(8).fill('unreachable'), 'provider_failed'],
])('stops the agent after %j', async (calls, code) => {
  const { watch, other } = await after(...calls)
  expect(await watch.look()).toMatchObject({ code })
  expect(await other.look()).toBeUndefined()
})

it.each([
  [['unauthorized', 'passed', 'unauthorized']],
  [['rate_limited', 'rate_limited']],
  [['gateway.no_route', 'gateway.no_route', 'gateway.previous_response']],
  [[]],
])('lets the agent continue after %j', async (calls) => {
  expect(await (await after(...calls)).watch.look()).toBeUndefined()
})

it('ignores calls from before the prompt, but counts those after it', async () => {
  const { watch, ask } = await after('unauthorized', 'unauthorized')
  await watch.restart()
  expect(await watch.look()).toBeUndefined()
  expect(await watch.last()).toMatchObject({ code: 'no_login' })
  await ask('unauthorized')
  expect(await watch.look()).toBeUndefined()
  await ask('unauthorized')
  expect(await watch.look()).toMatchObject({ code: 'no_login' })
})

it('counts each call once, even with concurrent checks', async () => {
  const { watch } = await after('unauthorized')
  expect(await Promise.all([watch.look(), watch.look(), watch.last().then(() => watch.look())])).toEqual([
    undefined,
    undefined,
    undefined,
  ])
})

it('reports an unanswered last call whatever the agent says', async () => {
  expect(await (await after('passed', 'rate_limited')).watch.last()).toMatchObject({ code: 'quota_exceeded' })
  expect(await (await after('rate_limited', 'passed')).watch.last()).toBeUndefined()
})

it('waits a limited time for an unreachable provider, however rarely the agent retries', async () => {
  const { watch, clock } = await after('passed', 'gateway.login_not_renewed', 'unreachable')
  expect(await watch.look()).toBeUndefined()
  expect(watch.retrying).toEqual({ why: 'the provider is unreachable', tries: 2 })
  clock.now = 44_999
  expect(await watch.look()).toBeUndefined()
  clock.now = 45_000
  expect(await watch.look()).toMatchObject({
    code: 'provider_failed',
    message: 'codex: its provider is unreachable',
    hint: expect.stringContaining('craik provider failover reset provider_openai'),
  })
})

it('ignores a single failed try or one next to an active call, and an answer ends the wait', async () => {
  const once = await after('unreachable')
  await once.watch.look()
  once.clock.now = 3_600_000
  expect(await once.watch.look()).toBeUndefined()
  const another = await after('unreachable', 'unreachable', 'underway')
  await another.watch.look()
  another.clock.now = 3_600_000
  expect(await another.watch.look()).toBeUndefined()
  const { watch } = await after('unreachable', 'unreachable', 'passed')
  await watch.look()
  expect(watch.retrying).toBeUndefined()
})

it('reports a cooldown after an unreachable provider, and how to end it', async () => {
  expect(await (await after('provider.cooling_down')).watch.last()).toMatchObject({
    message: 'codex: its provider is in cooldown after it was unreachable',
    hint: expect.stringContaining('craik provider failover reset provider_openai'),
  })
})

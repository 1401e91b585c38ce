import { expect, it } from 'vitest'
import { inProcessStore } from '../../../test/in-process-store.ts'
import { systemClock } from '../../lib/clock.ts'
import { ModelWatch } from './model-watch.ts'

const SANDBOX = 'sbx_one'

/** A sandbox whose agent asked, and what became of each call: `passed`, a failure, or the rule that refused it. */
async function after(...calls: readonly string[]) {
  const store = inProcessStore(systemClock)
  for (const call of calls) {
    const about = {
      operator: 'local-user:ada',
      capability: 'model.chat',
      operation: 'chat',
      target: 'provider',
    }
    const links = { sandbox_id: SANDBOX }
    if (call.includes('.')) {
      const decision = { effect: 'deny' as const, rule: call, missing: [], replayable: false }
      await store.log.append({ kind: 'denial', status: 'denied', ...about, links, decision })
      continue
    }
    const open = await store.log.begin({ kind: 'provider_action', ...about, links })
    if (call === 'passed') await open.end({ status: 'passed' })
    else await open.end({ status: 'failed', metadata: { failure: call } })
  }
  const watchOf = (sandboxId: string) =>
    new ModelWatch(store, { name: 'codex', logIn: 'codex login' }, sandboxId, 0)
  return { watch: watchOf(SANDBOX), other: watchOf('sbx_other') }
}

it.each([
  [['passed', 'unauthorized', 'unauthorized'], 'no_login'],
  [['budget.exhausted', 'budget.exhausted'], 'budget_exceeded'],
  [['rate_limited', 'overloaded', 'rate_limited', 'rate_limited', 'rate_limited'], 'quota_exceeded'],
  [['gateway.no_credentials', 'gateway.no_credentials'], 'denied'],
  [['unauthorized', 'gateway.credential'], 'no_login'],
  [['default_deny.x', 'default_deny.x'], 'denied'],
])('after %j the agent is not let try again', async (calls, code) => {
  const { watch, other } = await after(...calls)
  expect(await watch.look()).toMatchObject({ code })
  expect(await other.look()).toBeUndefined()
})

it.each([
  [['unauthorized', 'passed', 'unauthorized']],
  [['rate_limited', 'rate_limited']],
  [['gateway.no_route', 'gateway.no_route', 'gateway.previous_response']],
  [[]],
])('after %j it may go on', async (calls) => {
  expect(await (await after(...calls)).watch.look()).toBeUndefined()
})

it('a turn that ends after a call without an answer is told as that, whatever the agent says', async () => {
  expect(await (await after('passed', 'rate_limited')).watch.last()).toMatchObject({ code: 'quota_exceeded' })
  expect(await (await after('rate_limited', 'passed')).watch.last()).toBeUndefined()
})

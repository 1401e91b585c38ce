import fc from 'fast-check'
import { expect, test } from 'vitest'
import { cacheAnswers } from './cached-answers.ts'
import { type CedarRequest, loadPolicy } from './cedar.ts'

const ASKED: CedarRequest = {
  operator: 'local-user:ada',
  capability: 'repo.read',
  target: 'repo',
  context: { operation: 'read', now_ms: 1_000, grant: { usable: true } },
}
const at = (now_ms: number): CedarRequest => ({ ...ASKED, context: { ...ASKED.context, now_ms } })
const when = (condition: string) =>
  `@id("custom.timed") permit (principal, action, resource) when { ${condition} };`

test.each([
  ['by its name', 'context.now_ms < 2000'],
  ['by its name in quotes', 'context["now_ms"] < 2000'],
  ['by its name with an escape in it', 'context["now\\u{5f}ms"] < 2000'],
  [
    'as a part of the context, compared as a whole',
    'context == {operation: "read", now_ms: 1000, grant: {usable: true}}',
  ],
  ['inside another condition', 'if context.grant.usable then !(context.now_ms >= 2000) else false'],
  ['inside a set', '[context.now_ms].contains(1000)'],
  ['inside a record', '{at: context.now_ms}.at < 2000'],
])('evaluates a policy that reads the time %s again at another time', async (_, condition) => {
  const policy = await loadPolicy(when(condition))
  expect(policy.decide(at(1_000)).effect).toBe('allow')
  expect(policy.decide(at(2_000)).effect).toBe('deny')
  expect(policy.decide(at(1_000)).effect).toBe('allow')
})

test('caches a separate answer for requests that differ in anything but the time', async () => {
  const text = `${when('context.grant.usable && context has path && context.path == "a"')}
    @id("custom.who") forbid (principal == Operator::"eve", action, resource);
    @id("custom.what") forbid (principal, action == Action::"repo.write", resource);
    @id("custom.whom") forbid (principal, action, resource == Target::"other");`
  const policy = await loadPolicy(text)
  const name = fc.constantFrom('repo', 'other', 'eve', 'repo.read', 'repo.write', 'a')
  const question = fc.record({
    operator: name,
    capability: name,
    target: name,
    now_ms: fc.integer({ min: 0, max: 3 }),
    path: fc.option(name, { nil: undefined }),
    usable: fc.boolean(),
  })
  const isExpected = ({
    operator,
    capability,
    target,
    path,
    usable,
  }: typeof question extends fc.Arbitrary<infer T> ? T : never) =>
    operator !== 'eve' && capability !== 'repo.write' && target !== 'other' && usable && path === 'a'
  fc.assert(
    fc.property(fc.array(question, { minLength: 1, maxLength: 30 }), (questions) => {
      for (const each of questions) {
        const { path, usable, now_ms, ...rest } = each
        const context = { now_ms, ...(path !== undefined && { path }), grant: { usable } }
        expect(policy.decide({ ...rest, context }).effect).toBe(isExpected(each) ? 'allow' : 'deny')
      }
    }),
  )
})

test('calls the engine once for equal requests, and again after a failure', () => {
  const requested: CedarRequest[] = []
  let failed = true
  const decide = cacheAnswers((request) => {
    requested.push(request)
    return { effect: failed ? 'deny' : 'allow', rules: [], failed }
  })
  decide(at(1))
  failed = false
  expect([decide(at(2)).effect, decide(at(3)).effect]).toEqual(['allow', 'allow'])
  expect(requested).toHaveLength(2)
})

/** Failover between servers that speak two real wire formats, and the commands that show and test its rules. */
import { mkdirSync, writeFileSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, test } from 'vitest'
import { reportToBreaker } from '../../src/providers/breaker/breakers.ts'
import { callScene, KEY, modelCall } from '../../src/providers/dispatch.fixture.ts'
import { callModel } from '../../src/providers/dispatch.ts'
import type { ModelCall, ModelOutcome } from '../../src/providers/dispatch-types.ts'
import { unknownSecret } from '../../src/secrets/secret.ts'
import { TestHome } from '../craik.ts'
import { openLog } from '../faults/log.ts'
import { startAnthropic } from '../wire/anthropic.ts'
import { startChatCompletions } from '../wire/chat-completions.ts'
import type { Act } from '../wire/wire-server.ts'

const FIRST = 'provider_first'
const SECOND = 'provider_second'
const RULE = { from_provider_id: FIRST, to_provider_id: SECOND, reason: 'stand-in' }
const OVERLOADED: Act = { kind: 'refuse', status: 503, message: 'busy' }
/**
 * Long enough that Craik passes on part of it. Craik holds back the last characters until they cannot be the start of
 * the key.
 */
const BREAKS: Act = { kind: 'break', text: 'half of an answer that goes on' }
const HELLO: Act = { kind: 'text', text: 'hello from the second' }

/** Creates two providers of two dialects, and a policy for failover from the first to the second. */
async function pair(
  first: readonly Act[],
  second: readonly Act[],
  policy: object | null = { rules: [RULE] },
) {
  const at = await callScene()
  const one = await startChatCompletions(first)
  const two = await startAnthropic(second)
  at.addProvider(FIRST, 'openai', one.baseUrl)
  at.addProvider(SECOND, 'anthropic', two.baseUrl)
  if (policy !== null) at.configure('failover.json', { id: 'failover_team', ...policy })
  return {
    at,
    one,
    two,
    call: async (changes: Partial<ModelCall> = {}) =>
      callModel(at.place, await modelCall(at, { providerId: FIRST, model: 'first-model', ...changes })),
    /** Returns the receipts of a call, each as `kind:status:target`. */
    story: async (outcome: ModelOutcome) =>
      (await at.receiptsOf(outcome))
        .filter(({ kind, phase }) => kind !== 'budget' && phase !== 'begin')
        .map(({ kind, status, target }) => `${kind}:${status}:${target}`),
    async [Symbol.asyncDispose]() {
      await one.close()
      await two.close()
      await at[Symbol.asyncDispose]()
    },
  }
}

describe('before any content', () => {
  test('the fallback answers in its own dialect with its own model; every hop has a receipt', async () => {
    await using run = await pair([OVERLOADED], [HELLO])
    const outcome = await run.call()
    expect(outcome).toMatchObject({
      outcome: 'answered',
      providerId: SECOND,
      model: 'anthropic-model',
      text: 'hello from the second',
    })
    expect(run.one.requests[0]?.body.model).toBe('first-model')
    expect(run.two.requests[0]).toMatchObject({ invalid: undefined, body: { model: 'anthropic-model' } })
    expect(await run.story(outcome)).toEqual([
      `provider_action:failed:${FIRST}`,
      `environment_decision:passed:${SECOND}`,
      `provider_action:passed:${SECOND}`,
    ])
    const bodies = await run.at.receiptsOf(outcome)
    const failed = bodies.find(({ status }) => status === 'failed')
    expect(bodies.find(({ capability }) => capability === 'provider.failover')).toMatchObject({
      decision: { effect: 'allow', rule: 'failover.rule' },
      links: { provider_id: FIRST, target_id: SECOND, receipt_ids: [failed?.id] },
      metadata: { failure: 'overloaded', failover_policy_id: 'failover_team', rule_index: 0 },
    })
    expect(bodies.map(({ id }) => id)).toEqual(outcome.receiptIds)
    expect(JSON.stringify(bodies)).not.toContain(KEY)
  })

  test('the fallback replaces an unreachable server', async () => {
    await using run = await pair([OVERLOADED], [HELLO])
    await run.one.close()
    expect(await run.call()).toMatchObject({ outcome: 'answered', providerId: SECOND })
  })

  test('the fallback replaces a broken stream while none of its content was passed on', async () => {
    await using run = await pair([BREAKS], [HELLO], { rules: [{ ...RULE, on: ['broken_stream'] }] })
    expect(await run.call()).toMatchObject({ outcome: 'answered', text: 'hello from the second' })
  })

  test('a failure that the rule does not cover stays a failure', async () => {
    await using run = await pair([{ kind: 'refuse', status: 401 }], [HELLO])
    const outcome = await run.call()
    expect(outcome).toMatchObject({ outcome: 'failed', providerId: FIRST, failure: 'unauthorized' })
    expect(await run.story(outcome)).toEqual([`provider_action:failed:${FIRST}`, `denial:denied:${FIRST}`])
    expect(run.two.requests).toEqual([])
  })

  test('without a policy there is no failover and no failover receipt', async () => {
    await using run = await pair([OVERLOADED], [HELLO], null)
    const outcome = await run.call()
    expect(outcome).toMatchObject({ outcome: 'failed', providerId: FIRST })
    expect(await run.story(outcome)).toEqual([`provider_action:failed:${FIRST}`])
  })

  test('the fallback replaces a provider in cooldown, which gets no request', async () => {
    await using run = await pair([OVERLOADED], [HELLO], { rules: [RULE], cooldown_ms: 1000 })
    for (let i = 0; i < 4; i++) expect(await run.call()).toMatchObject({ providerId: SECOND })
    expect(run.one.requests).toHaveLength(3)
    run.at.clock.advance(1000)
    expect(await run.call()).toMatchObject({ providerId: SECOND })
    expect(run.one.requests).toHaveLength(4)
    await run.call()
    expect(run.one.requests).toHaveLength(4)
  })

  test('two providers that are fallbacks of each other get one request each', async () => {
    const back = { from_provider_id: SECOND, to_provider_id: FIRST }
    await using run = await pair([OVERLOADED], [OVERLOADED], { rules: [RULE, back] })
    const outcome = await run.call()
    expect(outcome).toMatchObject({ outcome: 'failed', providerId: SECOND, failure: 'overloaded' })
    expect(await run.story(outcome)).toEqual([
      `provider_action:failed:${FIRST}`,
      `environment_decision:passed:${SECOND}`,
      `provider_action:failed:${SECOND}`,
      `denial:denied:${FIRST}`,
    ])
    expect([run.one.requests.length, run.two.requests.length]).toEqual([1, 1])
  })
})

describe('no failover happens', () => {
  test('after content has been passed on', async () => {
    await using run = await pair([BREAKS], [HELLO], { rules: [{ ...RULE, on: ['broken_stream'] }] })
    const heard: string[] = []
    const outcome = await run.call({ onText: (text) => void heard.push(text) })
    expect(heard.join('')).toMatch(/^half of an ans/)
    expect(outcome).toMatchObject({ outcome: 'failed', failure: 'broken_stream' })
    expect(await run.story(outcome)).toEqual([`provider_action:failed:${FIRST}`, `denial:blocked:${FIRST}`])
    expect(run.two.requests).toEqual([])
  })

  test('after a stop reason, whatever a rule allows', async () => {
    await using run = await pair([OVERLOADED], [HELLO], { rules: [RULE], stop_reasons: ['overloaded'] })
    expect(await run.call()).toMatchObject({ outcome: 'failed', providerId: FIRST })
    expect(run.two.requests).toEqual([])
  })

  test('to a provider that the policy denies', async () => {
    await using run = await pair([OVERLOADED], [HELLO], { rules: [RULE], denied_provider_ids: [SECOND] })
    const outcome = await run.call()
    expect(await run.story(outcome)).toEqual([`provider_action:failed:${FIRST}`, `denial:denied:${SECOND}`])
    expect(run.two.requests).toEqual([])
  })

  test('to a provider that the caller has no grant for, because policy must allow the fallback too', async () => {
    await using run = await pair([OVERLOADED], [HELLO])
    const call = await modelCall(run.at, { providerId: FIRST })
    const grantFor = (id: string) => (id === FIRST ? call.grantFor(id) : Promise.resolve(undefined))
    const outcome = await callModel(run.at.place, { ...call, grantFor })
    expect(outcome).toMatchObject({
      outcome: 'failed',
      providerId: FIRST,
      failure: 'overloaded',
      reason: expect.stringContaining(`${SECOND} cannot stand in`),
      hint: expect.stringContaining(`--target ${SECOND}`),
    })
    expect(await run.story(outcome)).toEqual([
      `provider_action:failed:${FIRST}`,
      `environment_decision:passed:${SECOND}`,
      `denial:denied:${SECOND}`,
    ])
    expect(run.two.requests).toEqual([])
  })

  test('with the grant of another provider', async () => {
    await using run = await pair([OVERLOADED], [HELLO])
    const call = await modelCall(run.at, { providerId: FIRST })
    const outcome = await callModel(run.at.place, { ...call, grantFor: () => call.grantFor(FIRST) })
    expect(outcome).toMatchObject({ outcome: 'failed', providerId: FIRST })
    expect(run.two.requests).toEqual([])
  })

  test('after the caller cancelled', async () => {
    await using run = await pair([{ kind: 'silence' }], [HELLO], {
      rules: [{ ...RULE, on: ['timeout', 'unreachable'] }],
    })
    const controller = new AbortController()
    const call = run.call({ signal: controller.signal })
    while (run.one.requests.length === 0) await new Promise((done) => setImmediate(done))
    controller.abort()
    const outcome = await call
    expect(outcome).toMatchObject({ outcome: 'failed', failure: 'cancelled' })
    expect(await run.story(outcome)).toEqual([`provider_action:failed:${FIRST}`, `denial:blocked:${FIRST}`])
    expect(run.two.requests).toEqual([])
  })
})

test('a failure at the same moment as the cancellation causes no failover either', async () => {
  await using run = await pair([HELLO], [HELLO], { rules: [{ ...RULE, on: ['unauthorized'] }] })
  const controller = new AbortController()
  const credential = async (name: string): Promise<Buffer> => {
    controller.abort()
    throw unknownSecret(name)
  }
  const call = await modelCall(run.at, { providerId: FIRST, signal: controller.signal })
  const outcome = await callModel({ ...run.at.place, credential }, call)
  expect(outcome).toMatchObject({ outcome: 'failed', providerId: FIRST })
  expect(await run.story(outcome)).toEqual([`provider_action:failed:${FIRST}`, `denial:blocked:${FIRST}`])
})

describe('craik provider failover', () => {
  const POLICY = {
    id: 'failover_team',
    rules: [
      { from_provider_id: 'provider_openai', to_provider_id: 'provider_anthropic', on: ['rate_limited'] },
    ],
    denied_provider_ids: ['provider_gemini'],
    stop_reasons: ['unauthorized'],
  }

  function homeWith(policy: object): TestHome {
    const home = new TestHome()
    mkdirSync(join(home.home, 'config'), { recursive: true, mode: 0o700 })
    writeFileSync(join(home.home, 'config/failover.json'), JSON.stringify(policy), { mode: 0o600 })
    return home
  }

  test('show prints the rules and the state of every provider', async () => {
    using home = homeWith(POLICY)
    const shown = await home.json<{ policy: object; providers: { provider_id: string; state: string }[] }>([
      'provider',
      'failover',
      'show',
    ])
    expect(shown.policy).toMatchObject({ id: 'failover_team', denied_provider_ids: ['provider_gemini'] })
    expect(shown.providers).toContainEqual({
      provider_id: 'provider_openai',
      state: 'closed',
      failures: 0,
      last_failure: null,
      until: null,
      probing: false,
    })
    const { stdout } = await home.run(['provider', 'failover', 'show', '--format', 'table'])
    expect(stdout).toMatch(/provider_openai +provider_anthropic +rate_limited/)
    expect(stdout).toContain('never to     provider_gemini')
  })

  test('reset ends the cooldown of a provider at once, with a receipt', async () => {
    using home = homeWith(POLICY)
    {
      await using opened = await openLog(home.home)
      const ill = { result: 'failed', failure: 'overloaded' } as const
      for (let n = 0; n < 3; n++) await reportToBreaker(opened, 'provider_openai', undefined, ill)
    }
    const stateOf = async () => {
      const { providers } = await home.json<{ providers: { provider_id: string; state: string }[] }>([
        'provider',
        'failover',
        'show',
      ])
      return providers.find(({ provider_id }) => provider_id === 'provider_openai')?.state
    }
    expect(await stateOf()).toBe('open')
    const shown = await home.run(['provider', 'failover', 'show', '--format', 'table'])
    expect(shown.stdout).toContain('to try it now:  craik provider failover reset provider_openai\n')
    const reset = ['provider', 'failover', 'reset', 'provider_openai']
    const reply = await home.json<{ receipt_id: string }>(reset)
    expect(reply).toMatchObject({
      provider_id: 'provider_openai',
      state: 'closed',
      last_failure: 'overloaded',
      until: expect.stringMatching(/Z$/),
    })
    expect(await stateOf()).toBe('closed')
    expect(await home.json(['receipts', 'show', reply.receipt_id])).toMatchObject({
      body: {
        kind: 'environment_decision',
        status: 'passed',
        capability: 'provider.write',
        operation: 'reset_breaker',
        target: 'provider_openai',
        metadata: { openings: 1, last_failure: 'overloaded', open_until_ms: expect.any(Number) },
      },
    })
    expect(await home.run(reset)).toMatchObject({
      code: 4,
      stderr: expect.stringContaining('craik provider failover show'),
    })
    expect((await home.run(['provider', 'failover', 'reset', 'provider_opnai'])).code).toBe(3)
    expect((await home.run(['receipts', 'verify', '--replay'])).code).toBe(0)
  })

  test('test prints what Craik would decide, and exits with 0 either way', async () => {
    using home = homeWith(POLICY)
    const decide = (...more: string[]) =>
      home.json(['provider', 'failover', 'test', '--from', 'provider_openai', ...more])
    expect(await decide('--failure', 'rate_limited')).toMatchObject({
      status: 'allowed',
      to_provider_id: 'provider_anthropic',
    })
    expect(await decide('--failure', 'rate_limited', '--content-passed-on')).toMatchObject({
      status: 'stopped',
      rule: 'failover.content_passed_on',
    })
    expect(await decide('--failure', 'timeout')).toMatchObject({ status: 'denied', rule: 'failover.no_rule' })
    expect(await decide('--failure', 'rate_limited', '--tried', 'provider_anthropic')).toMatchObject({
      rule: 'failover.already_tried',
    })
  })

  test('an error in the file is reported with its field and exit code 78', async () => {
    using home = homeWith({ ...POLICY, rules: [{ ...POLICY.rules[0], requires_receipt: false }] })
    const { code, stderr } = await home.run(['provider', 'failover', 'show'])
    expect(code).toBe(78)
    expect(stderr).toContain('config/failover.json: rules.0.requires_receipt: must be true')
  })

  test('an unknown provider or failure is refused', async () => {
    using home = homeWith(POLICY)
    const base = ['provider', 'failover', 'test']
    expect((await home.run([...base, '--from', 'provider_x', '--failure', 'timeout'])).code).toBe(3)
    expect((await home.run([...base, '--from', 'provider_openai', '--failure', 'sad'])).code).toBe(2)
  })
})

/** Code in a sandbox can cause any number of refusals without filling the host's disk with receipts. */
import { afterEach, expect, test } from 'vitest'
import { startAnthropic } from '../../../test/wire/anthropic.ts'
import type { Act } from '../../../test/wire/wire-server.ts'
import { CraikError } from '../../errors.ts'
import { POLICY_OPERATOR } from '../../policy/policy.fixture.ts'
import { tokenBudget } from '../../providers/dispatch.fixture.ts'
import { setQuota } from '../../providers/ledger/budgets-and-quotas.ts'
import { exportLines } from '../../receipts/export-log.ts'
import { replayLog } from '../../run/replay-log.ts'
import { CERTIFICATE, type GatewayScene, gatewayScene, MemoryBroker } from '../gateway.fixture.ts'
import { ANTHROPIC, HELLO_TEXT } from './dialect-clients.fixture.ts'

const FLOOD = 150
/** Twenty at once, and a few during the flood: far fewer than the refusals. */
const MAX_RECEIPTS = 60
const TEAM = { keys: { TEAM_API_KEY: 'the-key-of-the-team-0001' } }

const cleanups: AsyncDisposable[] = []
afterEach(async () => {
  for (const each of cleanups.splice(0).reverse()) await each[Symbol.asyncDispose]()
})

/** A login that is listed, but unavailable. */
class EndedLogin extends MemoryBroker {
  override async credential(): Promise<never> {
    throw new CraikError('login_required', 'the login has ended')
  }
}

type Options = Partial<Parameters<typeof gatewayScene>[0]>

async function scene(script: readonly Act[], options: Options = {}, Broker = MemoryBroker) {
  const server = await startAnthropic(script, CERTIFICATE)
  cleanups.push(server)
  const gateway = await gatewayScene({ broker: new Broker(ANTHROPIC.login(server.baseUrl)), ...options })
  cleanups.push(gateway)
  return gateway
}

async function ask(gateway: GatewayScene, body: unknown = ANTHROPIC.body): Promise<number> {
  const headers = { 'anthropic-version': '2023-06-01' }
  const response = await gateway.ask(ANTHROPIC.path, body, { headers })
  await response.text()
  return response.status
}

async function flood(gateway: GatewayScene, body?: unknown): Promise<readonly number[]> {
  const statuses: number[] = []
  await gateway.port()
  for (let at = 0; at < FLOOD; at += 25)
    statuses.push(...(await Promise.all(Array.from({ length: 25 }, () => ask(gateway, body)))))
  return statuses
}

const listWritten = async ({ at }: GatewayScene) =>
  (await at.store.bodies()).filter(({ kind }) => kind !== 'grant' && kind !== 'environment_decision')

/** Returns the number of refusals in the log, by rule. */
async function countRefusals(gateway: GatewayScene): Promise<Record<string, number>> {
  const counts: Record<string, number> = {}
  for (const { decision, metadata } of await gateway.at.store.bodies()) {
    if (decision?.effect !== 'deny') continue
    counts[decision.rule] = (counts[decision.rule] ?? 0) + Number(metadata?.count ?? 1)
  }
  return counts
}

const coolDown = ({ at }: GatewayScene) =>
  at.store.tables.breakers.put({
    providerId: 'provider_anthropic',
    failures: 3,
    openings: 1,
    openUntilMs: at.clock.nowMs() + 30_000,
    lastFailure: 'overloaded',
    probes: [],
    updatedAtMs: at.clock.nowMs(),
  })

test.each<[string, string, number, Options, (gateway: GatewayScene) => Promise<unknown>]>([
  ['left alone', 'provider.cooling_down', 503, {}, coolDown],
  ['not granted', 'default_deny', 403, { grants: [] }, async () => {}],
  ['over its budget', 'budget.exhausted', 402, {}, ({ at }) => tokenBudget(at, 1)],
  [
    'over its quota',
    'quota.tokens_per_minute',
    429,
    {},
    ({ at }) =>
      setQuota(
        at.store,
        {
          scope_kind: 'provider',
          scope_ref: 'provider_anthropic',
          requests_per_minute: null,
          tokens_per_minute: 1,
          concurrent: null,
        },
        POLICY_OPERATOR,
      ),
  ],
  ['without credentials', 'gateway.no_credentials', 403, { credentials: 'none' }, async () => {}],
])(
  'a flood of calls that are %s is counted, and each gets a refusal',
  async (_, rule, status, options, prepare) => {
    const gateway = await scene([], options)
    await prepare(gateway)
    const before = (await listWritten(gateway)).length
    expect(new Set(await flood(gateway))).toEqual(new Set([status]))
    await gateway.gateway.close()
    expect((await listWritten(gateway)).length - before).toBeLessThan(MAX_RECEIPTS)
    expect(await countRefusals(gateway)).toEqual({ [rule]: FLOOD })
    expect(gateway.faults).toEqual([])
    expect(await replayLog(exportLines(gateway.at.store.tables), async () => {})).toMatchObject({
      differ: [],
    })
  },
)

test('malformed requests are counted as well', async () => {
  const gateway = await scene([])
  expect(new Set(await flood(gateway, '{'))).toEqual(new Set([400]))
  await gateway.gateway.close()
  expect((await listWritten(gateway)).length).toBeLessThan(MAX_RECEIPTS)
  expect(await countRefusals(gateway)).toEqual({ 'gateway.malformed': FLOOD })
})

test('calls with an unavailable login begin twenty times at once, and are refused afterwards', async () => {
  const gateway = await scene([], {}, EndedLogin)
  expect(new Set(await flood(gateway))).toEqual(new Set([401]))
  await gateway.gateway.close()
  const begun = (await listWritten(gateway)).filter(
    ({ kind, phase }) => kind === 'provider_action' && phase === 'begin',
  )
  expect(begun.length).toBeLessThan(MAX_RECEIPTS)
  expect(await countRefusals(gateway)).toEqual({ 'gateway.credential': FLOOD - begun.length })
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
})

/** The provider is in cooldown, and another one can replace it. */
async function fallbackScene(script: readonly Act[], options: Options = {}): Promise<GatewayScene> {
  const other = await startAnthropic(script, CERTIFICATE)
  cleanups.push(other)
  const gateway = await scene([], { ...TEAM, ...options })
  await coolDown(gateway)
  gateway.at.addProvider('provider_team', 'anthropic', other.baseUrl)
  gateway.at.configure('failover.json', {
    id: 'failover_team',
    rules: [{ from_provider_id: 'provider_anthropic', to_provider_id: 'provider_team', on: ['overloaded'] }],
  })
  return gateway
}

const hops = async ({ at }: GatewayScene) =>
  (await at.store.bodies()).filter(({ operation }) => operation === 'failover')

test('a fallback provider that refuses too causes no further receipts', async () => {
  const gateway = await fallbackScene([], { grants: ['provider_anthropic'] })
  expect(new Set(await flood(gateway))).toEqual(new Set([503]))
  await gateway.gateway.close()
  expect((await hops(gateway)).length).toBeLessThan(MAX_RECEIPTS)
  expect(await countRefusals(gateway)).toEqual({ 'provider.cooling_down': FLOOD, default_deny: FLOOD })
})

test('each response of a fallback provider has its receipts, with the failover decision', async () => {
  const gateway = await fallbackScene(Array.from({ length: FLOOD }, () => HELLO_TEXT))
  expect(new Set(await flood(gateway))).toEqual(new Set([200]))
  await gateway.gateway.close()
  const bodies = await listWritten(gateway)
  const answered = bodies.filter(({ kind, status }) => kind === 'provider_action' && status === 'passed')
  expect(answered).toHaveLength(FLOOD)
  expect(await hops(gateway)).toHaveLength(FLOOD)
  expect(await countRefusals(gateway)).toEqual({ 'provider.cooling_down': FLOOD })
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
})

test('refusals of one sandbox use up no receipts of another', async () => {
  const gateway = await scene([], { grants: [] })
  await flood(gateway)
  const headers = { 'anthropic-version': '2023-06-01' }
  await (await gateway.ask(ANTHROPIC.path, ANTHROPIC.body, { headers, sandboxId: 'sandbox-2' })).text()
  const own = (await listWritten(gateway)).filter(({ links }) => links.sandbox_id === 'sandbox-2')
  expect(own).toMatchObject([{ kind: 'denial', decision: { rule: 'default_deny', replayable: true } }])
})

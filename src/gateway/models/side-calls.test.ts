import { once } from 'node:events'
import type { ServerResponse } from 'node:http'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { POLICY_OPERATOR } from '../../policy/policy.fixture.ts'
import { breakerStates } from '../../providers/breaker/breakers.ts'
import { breakerReport } from '../../providers/breaker/tokens.ts'
import { balance, tokenBudget } from '../../providers/dispatch.fixture.ts'
import { setBudget, setQuota } from '../../providers/ledger/budgets-and-quotas.ts'
import { replayAll } from '../../providers/ledger/ledger.fixture.ts'
import { account, CERTIFICATE, type GatewayScene, gatewayScene, MemoryBroker } from '../gateway.fixture.ts'

const BODY = { model: 'claude-x', max_tokens: 2000, messages: [{ role: 'user', content: 'hi' }] }

const count = (_: string, response: ServerResponse) =>
  response.writeHead(200, { 'content-type': 'application/json' }).end('{"input_tokens":12}')

/** A provider that counts tokens, unless `answer` responds differently. */
async function counting(
  grants?: readonly string[],
  answer: (path: string, to: ServerResponse) => void = count,
) {
  const paths: (string | undefined)[] = []
  const server = createServer({ ...CERTIFICATE }, (request, response) => {
    paths.push(request.url)
    request.resume()
    answer(request.url!, response)
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const baseUrl = `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const gateway = await gatewayScene({
    broker: new MemoryBroker(account({ baseUrl })),
    ...(grants && { grants }),
  })
  return {
    paths,
    gateway,
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      server.closeAllConnections()
      server.close()
    },
  }
}

async function closeAndRead(gateway: GatewayScene) {
  await gateway.gateway.close()
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
  expect(gateway.faults).toEqual([])
  const bodies = await gateway.at.store.bodies()
  const calls = bodies.filter(({ kind, phase }) => kind === 'provider_action' && phase === 'end')
  expect((await replayAll({ store: gateway.at.store })).differ).toEqual([])
  return { bodies, calls }
}

test('counting tokens is decided, forwarded and recorded, and costs nothing', async () => {
  await using scene = await counting()
  const { gateway, paths } = scene
  await tokenBudget(gateway.at, 1_000_000)
  const response = await gateway.ask('/v1/messages/count_tokens?beta=true', BODY)
  expect(await response.json()).toEqual({ input_tokens: 12 })
  expect(paths).toEqual(['/v1/messages/count_tokens?beta=true'])
  expect((await closeAndRead(gateway)).calls).toMatchObject([{ status: 'passed' }])
  expect(await balance(gateway.at)).toEqual({ spent: 0, held: 0 })
})

test('an exhausted token or dollar budget, or token quota, does not block counting', async () => {
  await using scene = await counting()
  const { gateway, paths } = scene
  await tokenBudget(gateway.at, 1)
  const { store } = gateway.at
  const dollars = { limit_nano_usd: 1, limit_tokens: null, allow_unpriced: false }
  await setBudget(
    store,
    { id: 'budget_dollars', scope_kind: 'total', scope_ref: null, period: 'day', ...dollars },
    POLICY_OPERATOR,
  )
  const quota = { requests_per_minute: null, tokens_per_minute: 1, concurrent: null }
  await setQuota(
    store,
    { scope_kind: 'provider', scope_ref: 'provider_anthropic', ...quota },
    POLICY_OPERATOR,
  )
  const call = await gateway.ask('/v1/messages', BODY)
  expect([402, 429]).toContain(call.status)
  const counted = await gateway.ask('/v1/messages/count_tokens', BODY)
  expect({ status: counted.status, body: await counted.json() }).toEqual({
    status: 200,
    body: { input_tokens: 12 },
  })
  expect(paths).toEqual(['/v1/messages/count_tokens'])
  const { bodies, calls } = await closeAndRead(gateway)
  expect(calls).toHaveLength(1)
  const [held] = bodies.filter(({ operation, status }) => operation === 'reserve' && status === 'passed')
  expect(held).toMatchObject({ metadata: { nano_usd: 0, tokens: 0, balances: [] } })
})

test('counting needs the same grant as a call', async () => {
  await using scene = await counting([])
  const { gateway, paths } = scene
  expect((await gateway.ask('/v1/messages/count_tokens', BODY)).status).toBe(403)
  expect(paths).toEqual([])
  expect((await closeAndRead(gateway)).bodies.at(-1)).toMatchObject({ kind: 'denial' })
})

test('counting is one request against a request quota', async () => {
  await using scene = await counting()
  const { gateway, paths } = scene
  const quota = { requests_per_minute: 1, tokens_per_minute: null, concurrent: null }
  await setQuota(
    gateway.at.store,
    { scope_kind: 'provider', scope_ref: 'provider_anthropic', ...quota },
    POLICY_OPERATOR,
  )
  const ask = async () => (await gateway.ask('/v1/messages/count_tokens', BODY)).status
  expect([await ask(), await ask()]).toEqual([200, 429])
  expect(paths).toHaveLength(1)
})

const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  stop_reason: 'end_turn',
  content: [{ type: 'text', text: 'hello' }],
  usage: { input_tokens: 3, output_tokens: 1 },
}

function limitCounting(path: string, response: ServerResponse): void {
  if (path.includes('count_tokens')) response.writeHead(429, { 'retry-after': '120' }).end('{}')
  else response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(MESSAGE))
}

const coolingDown = ({ at }: GatewayScene, forMs: number) =>
  at.store.write(breakerReport, {
    providerId: 'provider_anthropic',
    probeId: undefined,
    cooldownMs: forMs,
    report: { result: 'failed', failure: 'rate_limited', retryAfterMs: forMs },
  })

test('a rate limit on counting tokens, however often, does not block the provider for any sandbox', async () => {
  await using scene = await counting(undefined, limitCounting)
  const { gateway } = scene
  for (let n = 0; n < 4; n++)
    expect((await gateway.ask('/v1/messages/count_tokens', BODY, { sandboxId: 'hostile' })).status).toBe(429)
  const call = await gateway.ask('/v1/messages', BODY, { sandboxId: 'other' })
  expect({ status: call.status, body: await call.json() }).toMatchObject({
    status: 200,
    body: { id: 'msg_1' },
  })
  expect(scene.paths).toHaveLength(5)
  await closeAndRead(gateway)
  expect(await gateway.at.store.tables.breakers.list()).toEqual([])
})

test('counting tokens is refused during a cooldown, and does not prolong it afterwards', async () => {
  await using scene = await counting(undefined, limitCounting)
  const { gateway, paths } = scene
  await coolingDown(gateway, 30_000)
  expect((await gateway.ask('/v1/messages/count_tokens', BODY)).status).toBe(503)
  expect(paths).toEqual([])
  gateway.at.clock.advance(30_000)
  expect((await gateway.ask('/v1/messages/count_tokens', BODY)).status).toBe(429)
  expect((await gateway.ask('/v1/messages', BODY)).status).toBe(200)
  await closeAndRead(gateway)
  expect(await gateway.at.store.tables.breakers.list()).toEqual([])
})

test('counting tokens takes no probe, and its success does not end the cooldown', async () => {
  await using scene = await counting()
  const { gateway } = scene
  await coolingDown(gateway, 30_000)
  gateway.at.clock.advance(30_000)
  expect((await gateway.ask('/v1/messages/count_tokens', BODY)).status).toBe(200)
  await closeAndRead(gateway)
  expect(await breakerStates(gateway.at.store, gateway.at.clock.nowMs())).toMatchObject([
    { phase: 'half_open', probing: false },
  ])
})

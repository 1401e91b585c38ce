import { expect, test } from 'vitest'
import type { Account } from '../../accounts/account.ts'
import { sentinelsFrom } from '../../accounts/sentinels.ts'
import type { GatewayCaller } from '../caller.ts'
import { account, gatewayScene, MemoryBroker, REAL_KEY } from '../gateway.fixture.ts'
import { WORKSPACE_PATH } from './chatgpt-workspace.ts'

/** No server listens there. */
const LOGIN = account({ id: 'codex', family: 'openai', kind: 'oauth', baseUrl: 'https://127.0.0.1:1' })
const SENTINELS = sentinelsFrom(Buffer.alloc(32, 7))
const OWN = SENTINELS.for('sandbox-1', LOGIN)
const OTHER = SENTINELS.for('sandbox-2', LOGIN)

class CountingBroker extends MemoryBroker {
  asked = 0
  override credential(accountId: string) {
    this.asked++
    return super.credential(accountId)
  }
}

async function asking(options: { credentials?: GatewayCaller['credentials']; logins?: Account[] } = {}) {
  const { credentials, logins = [LOGIN] } = options
  const broker = new CountingBroker(...logins)
  const scene = await gatewayScene({
    broker,
    ...(credentials && { credentials }),
    sentinelFor: (sandboxId, id) => SENTINELS.for(sandboxId, { ...LOGIN, id }).presented,
  })
  return {
    broker,
    async get(headers: Record<string, string>, method = 'GET', path = WORKSPACE_PATH) {
      const response = await fetch(`http://127.0.0.1:${await scene.port('sandbox-1')}${path}`, {
        method,
        headers,
      })
      return { status: response.status, text: await response.text() }
    },
    async rules() {
      await scene.gateway.close()
      expect(scene.faults).toEqual([])
      const bodies = await scene.at.store.bodies()
      return bodies.filter(({ kind }) => kind === 'denial').map(({ decision }) => decision?.rule)
    },
    [Symbol.asyncDispose]: () => scene[Symbol.asyncDispose](),
  }
}

const presenting = (token: string, number?: string) => ({
  authorization: `Bearer ${token}`,
  ...(number !== undefined && { 'chatgpt-account-id': number }),
})

test('a sandbox gets the workspace of its sentinel, and no request leaves the host', async () => {
  await using scene = await asking()
  for (const path of [WORKSPACE_PATH, `${WORKSPACE_PATH}?client_version=1`]) {
    const { status, text } = await scene.get(presenting(OWN.presented, OWN.accountNumber), 'GET', path)
    expect(status).toBe(200)
    expect(JSON.parse(text)).toEqual({
      accounts: [
        {
          id: OWN.accountNumber,
          workspace_backend_origin: 'https://craik.invalid',
          account_routing_override: 'NO_CONSTRAINT',
        },
      ],
    })
  }
  expect(scene.broker.asked).toBe(0)
  expect(await scene.rules()).toEqual([])
})

test.each([
  ['another sandbox’s number', presenting(OWN.presented, OTHER.accountNumber)],
  ['no number', presenting(OWN.presented)],
  ['another sandbox’s stand-in', presenting(OTHER.presented, OTHER.accountNumber)],
  ['another sandbox’s stand-in with its own number', presenting(OTHER.presented, OWN.accountNumber)],
  ['the real token', presenting(REAL_KEY, OWN.accountNumber)],
])('%s is refused with 401 and a receipt, and not repeated', async (_, headers) => {
  await using scene = await asking()
  const { status, text } = await scene.get(headers)
  expect(status).toBe(401)
  for (const value of [OTHER.accountNumber, OWN.accountNumber, REAL_KEY]) expect(text).not.toContain(value)
  expect(await scene.rules()).toEqual(['gateway.credential'])
})

test('after a logout on the host, or with only a key, there is no workspace', async () => {
  const key = account({ id: 'codex', family: 'openai', kind: 'api_key', baseUrl: LOGIN.baseUrl })
  for (const logins of [[], [key]]) {
    await using scene = await asking({ logins })
    expect(await scene.get(presenting(OWN.presented, OWN.accountNumber))).toMatchObject({ status: 401 })
    expect(await scene.rules()).toEqual(['gateway.credential'])
  }
})

test('a sandbox with the real login gets the workspace that it names, and no other', async () => {
  await using scene = await asking({ credentials: 'forward' })
  for (const token of [REAL_KEY, 'one-that-was-real-before']) {
    const { status, text } = await scene.get(presenting(token, 'the-real-number'))
    expect(status).toBe(200)
    expect(JSON.parse(text)).toMatchObject({ accounts: [{ id: 'the-real-number' }] })
    expect(text).not.toContain(token)
  }
  expect(scene.broker.asked).toBe(0)
  expect(await scene.rules()).toEqual([])
})

test.each([
  ['no number', presenting(REAL_KEY)],
  ['what is no number', presenting(REAL_KEY, '"},{"id":"x')],
  ['a number that is too long', presenting(REAL_KEY, 'x'.repeat(201))],
  ['no login', { 'chatgpt-account-id': 'the-real-number' }],
])('in a sandbox with the real login, %s is refused with 401 and a receipt', async (_, headers) => {
  await using scene = await asking({ credentials: 'forward' })
  expect(await scene.get(headers)).toMatchObject({ status: 401 })
  expect(await scene.rules()).toEqual(['gateway.credential'])
})

test('in a sandbox with the real login, there is no workspace after a logout on the host', async () => {
  await using scene = await asking({ credentials: 'forward', logins: [] })
  expect(await scene.get(presenting(REAL_KEY, 'the-real-number'))).toMatchObject({ status: 401 })
})

test('the route does not exist without a login, for another method, or below its path', async () => {
  const own = presenting(OWN.presented, OWN.accountNumber)
  {
    await using scene = await asking({ credentials: 'none' })
    expect(await scene.get(own)).toMatchObject({ status: 404 })
    expect(await scene.rules()).toEqual(['gateway.no_route'])
  }
  await using scene = await asking()
  for (const [method, path] of [
    ['POST', WORKSPACE_PATH],
    ['GET', `${WORKSPACE_PATH}/x`],
    ['GET', '/backend-api/wham/usage'],
  ] as const)
    expect(await scene.get(own, method, path)).toMatchObject({ status: 404 })
  expect(await scene.rules()).toEqual(['gateway.no_route', 'gateway.no_route', 'gateway.no_route'])
})

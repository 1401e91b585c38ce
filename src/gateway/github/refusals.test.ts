import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { POLICY_OPERATOR } from '../../policy/policy.fixture.ts'
import { callScene } from '../../providers/dispatch.fixture.ts'
import { account, MemoryBroker } from '../gateway.fixture.ts'
import { githubRoute } from './github-route.ts'

const FLOOD = 150

test('a flood of ungranted uses of the login is counted, and each use gets a refusal', async () => {
  await using at = await callScene()
  const login = account({ id: 'gh', family: 'github', kind: 'oauth', baseUrl: 'https://api.github.com' })
  const { store } = at
  const route = githubRoute({ store, log: store.log, clock: at.clock, broker: new MemoryBroker(login) })
  const caller = {
    operator: POLICY_OPERATOR,
    policyEnvelopeId: 'policy_team',
    sandboxId: 'sandbox-1',
    scope: {},
    credentials: 'broker' as const,
    sentinelFor: () => undefined,
    grantFor: async () => undefined,
  }
  const server = createServer((request, response) => void route.handle(caller, request, response))
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const ask = async (n: number) => {
    const url = `http://127.0.0.1:${port}/git/github.com/acme/repo-${n}.git/info/refs?service=git-upload-pack`
    const response = await fetch(url)
    return `${response.status} ${(await response.text()).replace(/repo-\d+/, 'repo')}`
  }
  const reported = new Set<string>()
  for (let n = 0; n < FLOOD; n += 25)
    for (const one of await Promise.all(Array.from({ length: 25 }, (_, i) => ask(n + i)))) reported.add(one)
  server.close()
  await route.close()
  expect([...reported]).toEqual([
    expect.stringMatching(/^403 craik: login\.use on github\/acme\/repo is denied by rule/),
  ])
  const denials = (await store.bodies()).filter(({ kind }) => kind === 'denial')
  expect(denials.length).toBeLessThan(60)
  expect(denials.reduce((sum, { metadata }) => sum + Number(metadata?.count ?? 1), 0)).toBe(FLOOD)
})

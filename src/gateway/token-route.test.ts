import { createServer, request } from 'node:http'
import type { AddressInfo } from 'node:net'
import { json } from 'node:stream/consumers'
import { afterEach, beforeEach, expect, it } from 'vitest'
import type { GatewayCaller } from './caller.ts'
import { answerToken, isTokenRoute } from './token-route.ts'

const CALLER: GatewayCaller = {
  operator: 'local-user:ada',
  policyEnvelopeId: 'policy_team',
  sandboxId: 'sbx_one',
  scope: {},
  credentials: 'broker',
  sentinelFor: () => undefined,
  grantFor: async () => undefined,
}
const OWN = { presented: 'access of sbx_one', refreshToken: 'refresh', idToken: 'id' }

let caller: GatewayCaller
const server = createServer((requested, response) => {
  if (isTokenRoute(requested))
    answerToken(caller, requested, response, (id) => (id === 'sbx_one' ? OWN : undefined))
  else response.writeHead(404).end()
})
beforeEach(async () => {
  caller = CALLER
  await new Promise<void>((done) => server.listen(0, '127.0.0.1', done))
})
afterEach(() => new Promise((done) => server.close(done)))

function ask(path: string, body: string): Promise<{ status: number | undefined; value: unknown }> {
  const { port } = server.address() as AddressInfo
  return new Promise((resolve, reject) => {
    const requested = request({ port, path, method: 'POST', agent: false }, (answer) =>
      json(answer).then(
        (value) => resolve({ status: answer.statusCode, value }),
        () => resolve({ status: answer.statusCode, value: undefined }),
      ),
    )
    requested.once('error', reject)
    requested.end(body)
  })
}

it('returns a sandbox’s present placeholders, whatever it sends', async () => {
  for (const body of ['', 'grant_type=refresh_token&refresh_token=x', '{"refresh_token":"stolen"}'])
    expect(await ask('/oauth/token', body)).toMatchObject({
      status: 200,
      value: { access_token: OWN.presented, refresh_token: OWN.refreshToken, id_token: OWN.idToken },
    })
})

it('returns nothing to a sandbox without a placeholder', async () => {
  for (const other of [
    { credentials: 'none' },
    { credentials: 'forward' },
    { sandboxId: undefined },
    { sandboxId: 'sbx_two' },
  ] as const) {
    caller = { ...CALLER, ...other }
    expect(await ask('/oauth/token', '')).toMatchObject({ status: 400, value: { error: 'invalid_grant' } })
  }
})

it('accepts only small requests, and no other path', async () => {
  await expect(ask('/oauth/token', 'x'.repeat(200_000))).rejects.toThrow()
  expect(await ask('/oauth/tokens', '')).toMatchObject({ status: 404 })
})

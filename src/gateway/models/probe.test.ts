import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { breakerStates, reportToBreaker } from '../../providers/breaker/breakers.ts'
import { replayAll } from '../../providers/ledger/ledger.fixture.ts'
import { account, CERTIFICATE, gatewayScene, MemoryBroker } from '../gateway.fixture.ts'

const PROVIDER = 'provider_anthropic'
const BODY = { model: 'claude-x', max_tokens: 2000, messages: [{ role: 'user', content: 'hi' }] }
const MESSAGE = {
  id: 'msg_1',
  type: 'message',
  role: 'assistant',
  model: 'claude-x',
  stop_reason: 'end_turn',
  content: [{ type: 'text', text: 'hello' }],
  usage: { input_tokens: 3, output_tokens: 1 },
}

/** A provider whose cooldown has just ended. It leaves requests for the model `slow` without an answer. */
async function halfOpen() {
  const seen: string[] = []
  const server = createServer({ ...CERTIFICATE }, async (request, response) => {
    const { model } = JSON.parse(Buffer.concat(await request.toArray()).toString()) as { model: string }
    seen.push(model)
    server.emit('asked')
    if (model === 'slow') return
    response.writeHead(200, { 'content-type': 'application/json' }).end(JSON.stringify(MESSAGE))
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const baseUrl = `https://127.0.0.1:${(server.address() as AddressInfo).port}/v1`
  const gateway = await gatewayScene({ broker: new MemoryBroker(account({ baseUrl })) })
  const { store, clock } = gateway.at
  for (let n = 0; n < 3; n++)
    await reportToBreaker({ store }, PROVIDER, undefined, { result: 'failed', failure: 'overloaded' })
  clock.advance(30_000)
  return {
    gateway,
    seen,
    asked: () => once(server, 'asked'),
    async [Symbol.asyncDispose]() {
      await gateway[Symbol.asyncDispose]()
      server.closeAllConnections()
      server.close()
    },
  }
}

test('a sandbox that holds its probe, or takes it again and again, does not block the provider for others', async () => {
  await using scene = await halfOpen()
  const { gateway, seen } = scene
  const hostile = async () => {
    const hangUp = new AbortController()
    const pending = scene.asked()
    const slow = { ...BODY, model: 'slow' }
    const call = gateway.ask('/v1/messages', slow, { sandboxId: 'hostile', signal: hangUp.signal })
    call.catch(() => {})
    await pending
    return hangUp
  }
  const first = await hostile()
  const again = await gateway.ask('/v1/messages', BODY, { sandboxId: 'hostile' })
  expect(again.status).toBe(503)
  first.abort()
  const { store, clock } = gateway.at
  await expect.poll(() => breakerStates(store, clock.nowMs())).toMatchObject([{ probing: false }])
  const second = await hostile()
  const other = await gateway.ask('/v1/messages', BODY, { sandboxId: 'other' })
  expect({ status: other.status, body: await other.json() }).toMatchObject({
    status: 200,
    body: { id: 'msg_1' },
  })
  expect(seen).toEqual(['slow', 'slow', 'claude-x'])
  await expect.poll(() => breakerStates(store, clock.nowMs())).toEqual([])
  second.abort()
  await gateway.gateway.close()
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
  expect((await replayAll({ store })).differ).toEqual([])
})

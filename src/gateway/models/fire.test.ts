import { once } from 'node:events'
import { createServer } from 'node:https'
import type { AddressInfo } from 'node:net'
import { expect, test } from 'vitest'
import { POLICY_OPERATOR } from '../../policy/policy.fixture.ts'
import { listBudgets, setBudget } from '../../providers/ledger/budgets-and-quotas.ts'
import { replayAll } from '../../providers/ledger/ledger.fixture.ts'
import { account, CERTIFICATE, gatewayScene, MemoryBroker } from '../gateway.fixture.ts'

const STREAMS = 64
const CALLERS = 4
const BODY = {
  model: 'claude-sonnet-4-5',
  max_tokens: 2000,
  stream: true,
  messages: [{ role: 'user', content: 'hi' }],
}
const PIECES = [
  { type: 'message_start', message: { usage: { input_tokens: 20, output_tokens: 1 } } },
  { type: 'content_block_delta', index: 0, delta: { type: 'text_delta', text: 'hello' } },
  { type: 'message_delta', delta: { stop_reason: 'end_turn' }, usage: { output_tokens: 2000 } },
  { type: 'message_stop' },
].map((event) => `event: ${event.type}\ndata: ${JSON.stringify(event)}\n\n`)

test('64 streams of 4 sandboxes against a budget for half of them spend not a nano-dollar too much, and the log proves it', async () => {
  let open = 0
  let most = 0
  const allRequested = Promise.withResolvers<void>()
  const server = createServer({ ...CERTIFICATE }, (request, response) => {
    open++
    most = Math.max(most, open)
    response.once('close', () => open--)
    request.resume().once('end', async () => {
      response.writeHead(200, { 'content-type': 'text/event-stream' }).write(PIECES[0])
      await allRequested.promise
      for (const piece of PIECES.slice(1)) response.write(piece)
      response.end()
    })
  })
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const broker = new MemoryBroker(account({ baseUrl: 'https://api.anthropic.com/v1' }))
  await using gateway = await gatewayScene({ broker, dialled: () => ({ host: '127.0.0.1', port }) })
  const { store, clock } = gateway.at
  const budget = (limit: number) =>
    setBudget(
      store,
      {
        scope_kind: 'total',
        scope_ref: null,
        period: 'day',
        limit_nano_usd: limit,
        limit_tokens: null,
        allow_unpriced: false,
      },
      POLICY_OPERATOR,
    )
  // The worst-case hold of one such call: every byte at the highest input price, and the full output limit.
  const hold = Buffer.byteLength(JSON.stringify(BODY)) * 3_750 + 2000 * 15_000
  const limit = (STREAMS / 2) * hold
  await budget(limit)
  for (let i = 0; i < CALLERS; i++) await gateway.port(`sandbox-${i}`)
  const requests = Array.from({ length: STREAMS }, async (_, i) => {
    const response = await gateway.ask('/v1/messages', BODY, { sandboxId: `sandbox-${i % CALLERS}` })
    return { status: response.status, text: response.text() }
  })
  const answers = await Promise.all(requests)
  const held = (await listBudgets(store, clock.nowMs()))[0]!
  expect(held.held_nano_usd).toBe(limit)
  expect(held.spent_nano_usd).toBe(0)
  allRequested.resolve()
  const texts = await Promise.all(answers.map(({ text }) => text))
  const statuses = answers.map(({ status }) => status)
  expect(statuses.filter((status) => status === 200)).toHaveLength(STREAMS / 2)
  expect(statuses.filter((status) => status === 402)).toHaveLength(STREAMS / 2)
  expect(texts.filter((text) => text.includes('message_stop'))).toHaveLength(STREAMS / 2)
  expect(most).toBe(STREAMS / 2)
  await gateway.gateway.close()
  const [after] = await listBudgets(store, clock.nowMs())
  expect(after).toMatchObject({
    held_nano_usd: 0,
    spent_nano_usd: (STREAMS / 2) * (20 * 3_000 + 2000 * 15_000),
  })
  expect(after!.spent_nano_usd).toBeLessThanOrEqual(limit)
  expect(await gateway.readOpen()).toEqual({ open: 0, holds: 0 })
  const { differ, ledger } = await replayAll({ store })
  expect(differ).toEqual([])
  expect(ledger.budgets).toMatchObject([{ exceeded: null, peak: { nanoUsd: after!.spent_nano_usd } }])
  server.closeAllConnections()
  server.close()
})

import { expect, test } from 'vitest'
import { replayLog } from './replay-log.ts'

const SEAL = { at: '2026-01-01T00:00:00.000Z', kid: '', prev: '', receipt_hmac: '', seq: 0 }

/** Nobody signed what follows the last checkpoint of a file. */
test.each([
  'null',
  '[]',
  JSON.stringify({ seal: SEAL }),
  JSON.stringify({ body: { id: 'rcpt_1', kind: 'budget' }, seal: SEAL }),
  JSON.stringify({ body: { id: 'rcpt_1', kind: 'budget', links: null }, seal: SEAL }),
  JSON.stringify({ body: { kind: 'provider_action', capability: 'model.chat', links: {} }, seal: SEAL }),
  JSON.stringify({ body: { id: 'rcpt_1', links: {} } }),
])('reports a JSON line that is not a receipt like a line that is not JSON: %s', async (line) => {
  const lines = (async function* () {
    yield line
  })()
  await expect(replayLog(lines, async () => {})).rejects.toThrow(SyntaxError)
})

test('counts decisions that cannot be replayed by kind, and lists at most twenty of each', async () => {
  const lines = (async function* () {
    for (let n = 0; n < 33; n++) {
      const kind = n < 3 ? 'denial' : 'shell_action'
      const decision = { effect: 'deny', rule: 'x', missing: [], replayable: false, input: {} }
      const body = { id: `rcpt_${n}`, kind, phase: 'point', capability: 'x.y', links: {}, decision }
      yield JSON.stringify({ body, seal: { ...SEAL, seq: n } })
    }
  })()
  const { notReplayable, notReplayableKinds } = await replayLog(lines, async () => {})
  expect(notReplayable).toBe(33)
  expect(notReplayableKinds).toEqual([
    {
      kind: 'shell_action',
      count: 30,
      receiptIds: Array.from({ length: 20 }, (_, n) => `rcpt_${n + 3}`),
    },
    { kind: 'denial', count: 3, receiptIds: ['rcpt_0', 'rcpt_1', 'rcpt_2'] },
  ])
})

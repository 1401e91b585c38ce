import { expect, test } from 'vitest'
import { replayLog } from '../../run/replay-log.ts'
import {
  describeVerification,
  type Verification,
  verificationExitCode,
  verificationJson,
} from './verification.ts'

const REPORT: Verification['report'] = { outcome: 'ok', receipts: 9, checkpoints: 1, intact: 9, missing: [] }

async function verification(more: Partial<Verification> = {}): Promise<Verification> {
  const nothing = await replayLog((async function* () {})(), async () => {})
  const replay = {
    ...nothing,
    decisions: 9,
    agree: 1,
    notReplayable: 8,
    notReplayableKinds: [
      { kind: 'shell_action', count: 6, receiptIds: ['rcpt_1'] },
      { kind: 'denial', count: 2, receiptIds: ['rcpt_2'] },
    ],
  }
  return { report: REPORT, replay, elapsedMs: 1, ...more }
}

test('names the decisions that cannot be recomputed by kind and count, and in JSON also by the first receipts', async () => {
  const result = await verification()
  expect(describeVerification(result)).toContain(
    '  9 decisions recomputed: 1 agree · 8 cannot be recomputed (6 shell_action, 2 denial)\n',
  )
  expect(verificationJson(result)).toMatchObject({
    replay: {
      not_replayable: 8,
      not_replayable_kinds: [
        { kind: 'shell_action', count: 6, receipt_ids: ['rcpt_1'] },
        { kind: 'denial', count: 2, receipt_ids: ['rcpt_2'] },
      ],
    },
  })
})

test('reports a tampered log if rows differ from the replay, even if the log itself is intact', async () => {
  const rows = { compared: 3, differ: [{ id: 'budget_total', detail: 'the database says removed true' }] }
  const result = await verification({ rows })
  expect(verificationExitCode(result)).toBe(1)
  expect(verificationJson(result)).toMatchObject({ outcome: 'tampered', replay: { rows } })
  expect(describeVerification(result)).toContain('  ✗ budget_total: the database says removed true\n')
  expect(describeVerification(await verification({ rows: { compared: 3, differ: [] } }))).toContain(
    '  3 rows of budgets, balances and holds: same as in the log\n',
  )
})

test('reports a contradiction, in text and in JSON, if boundaries counted operations without receipts', async () => {
  const differ = [
    { sandboxId: 'sbx_1', epoch: 'epoch_1', detail: 'sandbox sbx_1 epoch_1: the boundary opened 5 jobs' },
  ]
  const result = await verification({ boundaries: { epochs: 1, open: 0, operations: 5, differ } })
  expect(verificationExitCode(result)).toBe(1)
  expect(describeVerification(result)).toContain('  ✗ sandbox sbx_1 epoch_1: the boundary opened 5 jobs\n')
  expect(verificationJson(result)).toMatchObject({
    outcome: 'tampered',
    boundaries: { epochs: 1, operations: 5, differ: [{ sandbox_id: 'sbx_1', epoch: 'epoch_1' }] },
  })
  const sound = await verification({ boundaries: { epochs: 2, open: 1, operations: 5, differ: [] } })
  expect(verificationExitCode(sound)).toBe(0)
  expect(describeVerification(sound)).toContain('sandboxes ✓ 5 operations, each with its receipt')
  const none = await verification({ boundaries: { epochs: 0, open: 0, operations: 0, differ: [] } })
  expect(describeVerification(none)).not.toContain('sandboxes ✓')
  expect(JSON.stringify(verificationJson(none))).not.toContain('boundaries')
})

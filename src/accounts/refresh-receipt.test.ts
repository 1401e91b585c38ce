import { expect, it } from 'vitest'
import { inProcessStore } from '../../test/in-process-store.ts'
import { systemClock } from '../lib/clock.ts'
import type { Receipt } from '../receipts/schema.ts'
import { recordRefresh } from './refresh-receipt.ts'

it.each([
  ['the issuer could not be reached (ENOTFOUND)', 'the_issuer_could_not_be_reached_ENOTFOUND'],
  ['the issuer’s answer is not one that was expected', 'the_issuer_s_answer_is_not_one_that_was_expected'],
])('the reason why a login was not renewed stays in its receipt: %s', async (reason, word) => {
  const store = inProcessStore(systemClock)
  await recordRefresh(store.log, 'local-user:ada', 'codex', async () => ({ outcome: 'failed', reason }))
  const lines = await store.read((tables) => tables.receipts.scan(0, 10))
  const { body, ...shell } = JSON.parse(lines.at(-1)!.line) as Receipt
  expect(body).toMatchObject({ status: 'failed', metadata: { outcome: 'failed', reason: word } })
  expect(JSON.stringify(shell)).not.toContain('metadata')
})

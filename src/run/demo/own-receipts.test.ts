import { rmSync } from 'node:fs'
import { beforeEach, describe, expect, it } from 'vitest'
import type { InProcessStore } from '../../../test/in-process-store.ts'
import { decide } from '../../policy/decide.ts'
import { DECISION_REQUEST, POLICY_OPERATOR, storeWith } from '../../policy/policy.fixture.ts'
import { checkReceiptsSince, nextReceipt } from './own-receipts.ts'

describe('the receipts of a demo', () => {
  let store: InProcessStore
  const check = (from: number) => checkReceiptsSince({ store, home: store.home }, from)
  const edit = (sql: string) =>
    store.database.exec(`DROP TRIGGER receipts_never_change; DROP TRIGGER receipts_never_leave; ${sql}`)
  const write = (target: string) =>
    store.log.append({
      kind: 'environment_decision',
      status: 'passed',
      operator: POLICY_OPERATOR,
      capability: 'agent.session',
      target,
      links: {},
    })

  beforeEach(async () => {
    ;({ store } = await storeWith('automation'))
    await write('before')
    await write('before')
  })

  it('are valid from the demo’s first one on, with every decision replayed', async () => {
    const from = await nextReceipt(store)
    await write('mine')
    await decide(store, store.log, DECISION_REQUEST, { kind: 'sandbox_action', links: {} })
    expect(await check(from)).toEqual({
      holds: true,
      receipts: 2,
      decisions: 1,
      recomputed: 1,
      notReplayable: 0,
      problems: [],
    })
    expect((await check(0)).receipts).toBe(from + 2)
  })

  it('are valid when there are none', async () => {
    expect(await check(await nextReceipt(store))).toMatchObject({ holds: true, receipts: 0 })
  })

  it.each([
    ['edited', "UPDATE receipts SET line = replace(line, 'mine', 'mind') WHERE seq = 3"],
    ['removed', 'DELETE FROM receipts WHERE seq = 3'],
    [
      'unlinked from what was there before',
      "UPDATE receipts SET line = replace(line, 'before', 'befole') WHERE seq = 1",
    ],
    ['hashed to something else', "UPDATE receipts SET leaf = x'00' WHERE seq = 3"],
  ])('are not valid when one was %s', async (_, sql) => {
    const from = await nextReceipt(store)
    for (let i = 0; i < 3; i++) await write('mine')
    edit(sql)
    const checked = await check(from)
    expect(checked.holds).toBe(false)
    expect(checked.problems).not.toEqual([])
  })

  it('are not valid when a decision does not follow from its inputs', async () => {
    const from = await nextReceipt(store)
    await decide(store, store.log, DECISION_REQUEST, { kind: 'sandbox_action', links: {} })
    store.database.exec(`UPDATE documents SET text = 'permit (principal, action, resource);'`)
    expect(await check(from)).toMatchObject({ holds: false })
  })

  it('are not valid without the key that sealed them', async () => {
    const from = await nextReceipt(store)
    await write('mine')
    rmSync(store.home.secrets, { recursive: true })
    await expect(check(from)).rejects.toThrow(/key/)
  })
})

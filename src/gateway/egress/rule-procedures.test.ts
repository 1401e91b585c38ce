import { beforeEach, describe, expect, it } from 'vitest'
import { type InProcessStore, inProcessStore } from '../../../test/in-process-store.ts'
import { POLICY_OPERATOR, TestClock } from '../../policy/policy.fixture.ts'
import { SANDBOX } from './egress-proxy.fixture.ts'
import { listRules } from './rule-reader.ts'
import { parseTyped } from './rules.ts'
import { addRule, removeRule, removeSandboxRules } from './tokens.ts'

let store: InProcessStore
beforeEach(() => {
  store = inProcessStore(new TestClock())
})

const allow = (typed: string, sandboxId: string | null = SANDBOX) =>
  store.write(addRule, {
    ...parseTyped(typed),
    operator: POLICY_OPERATOR,
    approvedBy: POLICY_OPERATOR,
    sandboxId,
    preset: null,
  })
const grantOf = async (id: string | null) => (await store.tables.grants.get(id!))!
const all = async () => (await listRules(store, store.home)).rules

describe('egress rules', () => {
  it('have a grant and receipts when created, and are removed with the grant and a receipt', async () => {
    const { rule } = await allow('a.example.com')
    expect((await grantOf(rule.grant_id)).revokedAtMs).toBeNull()
    await store.write(removeRule, { id: rule.id, operator: POLICY_OPERATOR })
    expect((await grantOf(rule.grant_id)).revokedAtMs).not.toBeNull()
    expect(await all()).toEqual([])
    const message = (await store.bodies()).map(
      ({ kind, operation, target }) => `${kind} ${operation} ${target}`,
    )
    expect(message).toEqual([
      `grant create ${rule.grant_id}`,
      `egress allow egress/${rule.id}`,
      `grant revoke ${rule.grant_id}`,
      `egress remove egress/${rule.id}`,
    ])
  })

  it('with the same terms replace the earlier rule', async () => {
    const { rule: first } = await allow('a.example.com')
    const { rule: second } = await allow('A.example.com.')
    expect((await all()).map(({ id }) => id)).toEqual([second.id])
    expect((await grantOf(first.grant_id)).revokedAtMs).not.toBeNull()
  })

  it('of a sandbox are removed with it; rules for all sandboxes stay', async () => {
    await allow('a.example.com')
    await allow('b.example.com', 'sbx_other')
    const { rule } = await allow('c.example.com', null)
    store.database.exec(`UPDATE egress_rules SET seal = 'x' WHERE scope = 'sbx_other'`)
    expect(await store.write(removeSandboxRules, { sandboxId: SANDBOX, operator: POLICY_OPERATOR })).toBe(1)
    expect(await store.write(removeSandboxRules, { sandboxId: 'sbx_other', operator: POLICY_OPERATOR })).toBe(
      1,
    )
    expect((await all()).map(({ id }) => id)).toEqual([rule.id])
  })

  it('that were changed outside Craik are not removed as valid ones', async () => {
    const { rule } = await allow('a.example.com')
    store.database.exec(`UPDATE egress_rules SET document = replace(document, 'a.example', 'b.example')`)
    await expect(store.write(removeRule, { id: rule.id, operator: POLICY_OPERATOR })).rejects.toThrow(
      'changed outside Craik',
    )
  })

  it('are limited in number, and a refused rule leaves no grant behind', async () => {
    for (let i = 0; i < 200; i++) await allow(`host-${i}.example.com`)
    const before = (await store.tables.grants.list(1000)).length
    await expect(allow('one-more.example.com')).rejects.toThrow('200 egress rules')
    expect((await store.tables.grants.list(1000)).length).toBe(before)
  })
})

import { expect, test } from 'vitest'
import type { ReceiptId } from '../../lib/ids.ts'
import { createGrants, revokeGrants } from '../../policy/grant-procedures.ts'
import { POLICY_OPERATOR, storeWith } from '../../policy/policy.fixture.ts'
import { prepareReceipt } from '../../receipts/prepare.ts'
import type { Receipt } from '../../receipts/schema.ts'
import { Sealer } from '../../receipts/sealer.ts'
import { grantProblems } from './audit-grants.ts'

const OPERATIONS = new Map([
  ['sandbox.exec', ['exec']],
  ['sandbox.read', ['read', 'list']],
])

async function grantScene() {
  const { store, clock } = await storeWith('automation')
  const within = async <T>(work: (sealer: Sealer) => Promise<T>): Promise<T> => {
    store.database.exec('BEGIN IMMEDIATE')
    const done = await work(new Sealer(store.home, clock))
    store.database.exec('COMMIT')
    return done
  }
  const terms = {
    subject: POLICY_OPERATOR,
    target: { ref: 'sandbox/one' },
    max_uses: null,
    approved_by: POLICY_OPERATOR,
  }
  const expiresAtMs = clock.nowMs() + 60_000
  const about = 'sandbox/one'
  const ids = await within((sealer) =>
    createGrants(store.tables, { terms, operations: OPERATIONS, expiresAtMs, about }, sealer, clock),
  )
  const used = Object.values(ids).map(
    (grant_id) =>
      ({
        phase: 'begin',
        links: { grant_id, grant_outcome: 'usable' },
        decision: { effect: 'allow' },
      }) as unknown as Receipt['body'],
  )
  const problems = () => grantProblems(store.tables, used, async () => undefined)
  return { store, clock, within, ids, problems }
}

test('writes one receipt for grants created together, which proves each of them', async () => {
  const { store, ids, problems } = await grantScene()
  const bodies = (await store.bodies()).filter(({ kind }) => kind === 'grant')
  expect(bodies).toMatchObject([{ operation: 'create', target: 'sandbox/one', operator: POLICY_OPERATOR }])
  expect(bodies[0]!.metadata).toMatchObject({
    subject: POLICY_OPERATOR,
    max_uses: null,
    grants: [
      {
        grant_id: ids['sandbox.exec'],
        capability: 'sandbox.exec',
        operations: ['exec'],
        digest: expect.stringMatching(/^sha256:/),
      },
      { grant_id: ids['sandbox.read'], capability: 'sandbox.read', operations: ['read', 'list'] },
    ],
  })
  expect(await problems()).toEqual([])
})

test('finds one of them that was edited in the database', async () => {
  const { store, ids, problems } = await grantScene()
  const id = ids['sandbox.read']!
  store.database
    .prepare(`UPDATE grants SET document = replace(document, '"sandbox/one"', '"sandbox/two"') WHERE id = ?`)
    .run(id)
  expect(await problems()).toEqual([expect.stringContaining(`${id} differs from `)])
})

test('finds one that was added only as a row', async () => {
  const { store, ids, problems } = await grantScene()
  const id = ids['sandbox.read']!
  const other = id.replace(/.$/, (last) => (last === '0' ? '1' : '0'))
  store.database
    .prepare('UPDATE grants SET id = ?1, document = replace(document, ?2, ?1) WHERE id = ?2')
    .run(other, id)
  const body = {
    phase: 'begin',
    links: { grant_id: other, grant_outcome: 'usable' },
    decision: { effect: 'allow' },
  }
  const found = await grantProblems(store.tables, [body as unknown as Receipt['body']], async () => undefined)
  expect(found).toEqual([`no receipt of the creation of ${other}`])
  expect(await problems()).toEqual([])
})

test('writes one receipt for grants revoked together, without those revoked earlier', async () => {
  const { store, clock, within, ids } = await grantScene()
  await store.tables.grants.revoke(ids['sandbox.exec']!, clock.nowMs())
  const requested = { ids: Object.values(ids), operator: POLICY_OPERATOR, about: 'sandbox/one' }
  await within((sealer) => revokeGrants(store.tables, requested, sealer, clock))
  await within((sealer) => revokeGrants(store.tables, requested, sealer, clock))
  const revokes = (await store.bodies()).filter(({ operation }) => operation === 'revoke')
  expect(revokes.map(({ metadata }) => metadata)).toMatchObject([
    { grants: [{ grant_id: ids['sandbox.read'] }] },
  ])
})

test('can write the receipt for any ending of an id', () => {
  for (const end of ['PWD', 'KEY', 'PASS', 'CRED', 'SECRET', 'PASSWD', 'TKEYS']) {
    const grant_id = `grant_${'01M7H1KVXM8MED5DXGQJGFRPWD'.slice(0, 26 - end.length)}${end}`
    const digest = `sha256:${'0123456789abcdef'.repeat(4)}`
    const metadata = { grants: [{ grant_id, capability: 'sandbox.exec', operations: ['exec'], digest }] }
    const { body } = prepareReceipt('rcpt_x' as ReceiptId, {
      kind: 'grant',
      phase: 'point',
      status: 'passed',
      operator: POLICY_OPERATOR,
      capability: 'grant.write',
      operation: 'create',
      target: 'sandbox/one',
      links: {},
      metadata,
    })
    expect(JSON.parse(body)).toMatchObject({ metadata })
    expect(JSON.parse(body)).not.toHaveProperty('redacted_fields')
  }
})

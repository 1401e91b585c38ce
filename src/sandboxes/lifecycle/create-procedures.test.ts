import { expect, test } from 'vitest'
import { createGrant } from '../../policy/grants.ts'
import { OPERATIONS } from '../operations.ts'
import {
  ADA_USER,
  approveCreate,
  BOB,
  creation,
  LifecycleStore,
  newSandboxId,
  PLACE,
} from './lifecycle.fixture.ts'
import { getSandbox, listSandboxes } from './read-records.ts'
import { MAX_SANDBOXES } from './sandbox-record.ts'
import { beginCreate, endCreate } from './tokens.ts'

const anyName = {
  capability: 'sandbox.create',
  subject: ADA_USER,
  scope: 'any' as const,
  operations: ['create'],
  max_uses: null,
  approved_by: ADA_USER,
}

test('a request without a grant records only the denial', async () => {
  const { store } = new LifecycleStore()
  const answer = await store.write(beginCreate, creation({ name: 'box' }))
  expect(answer).toMatchObject({ effect: 'denied', evaluation: { missing: ['capability_grant'] } })
  expect(await store.tables.sandboxes.list({}, 10)).toEqual([])
  expect(await store.bodies()).toMatchObject([
    { kind: 'denial', status: 'denied', capability: 'sandbox.create', target: 'sandbox/box' },
  ])
})

test('the approval of a typed command creates one sandbox of that name, once', async () => {
  const { store, clock } = new LifecycleStore()
  await approveCreate(store, clock, { operator: ADA_USER, name: 'box' })
  expect(await store.write(beginCreate, creation({ name: 'other' }))).toMatchObject({ effect: 'denied' })
  expect(await store.write(beginCreate, creation())).toMatchObject({ effect: 'denied' })
  expect(await store.write(beginCreate, creation({ name: 'box', operator: BOB }))).toMatchObject({
    effect: 'denied',
  })
  const allowed = await store.write(beginCreate, creation({ name: 'box' }))
  expect(allowed).toMatchObject({ effect: 'allowed', record: { name: 'box', state: 'creating' } })
  expect(await store.write(beginCreate, creation({ name: 'box' }))).toMatchObject({ effect: 'denied' })
})

test('a running sandbox has its instance, and its operator has a grant for every capability but creating', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox({ name: 'box' })
  expect(record).toMatchObject({ state: 'running', pending: null, place: PLACE, operator: ADA_USER })
  const capabilities = new Set<string>(Object.values(OPERATIONS).map(({ capability }) => capability))
  capabilities.delete('sandbox.create')
  expect(new Set(Object.keys(record.owner_grants))).toEqual(capabilities)
  const bodies = await fixture.store.bodies()
  const begin = bodies.find(({ phase }) => phase === 'begin')!
  const end = bodies.find(({ phase }) => phase === 'end')!
  expect(begin).toMatchObject({ kind: 'sandbox_action', links: { sandbox_id: record.id } })
  expect(end).toMatchObject({ begin_id: begin.id, status: 'passed', isolation: 'process' })
  expect(await fixture.store.tables.openReceipts.list()).toEqual([])
})

test('a failed creation leaves its receipts and no record', async () => {
  const { store, clock } = new LifecycleStore()
  await approveCreate(store, clock, { operator: ADA_USER, name: 'box' })
  const input = creation({ name: 'box' })
  await store.write(beginCreate, input)
  await store.write(endCreate, { id: input.id, status: 'failed' })
  expect(await store.tables.sandboxes.list({}, 10)).toEqual([])
  expect((await store.bodies()).at(-1)).toMatchObject({ phase: 'end', status: 'failed' })
  await expect(store.write(endCreate, { id: input.id, status: 'failed' })).rejects.toThrow('unknown sandbox')
})

test('a name belongs to one sandbox at a time, and an operator who may create none does not learn which exist', async () => {
  const fixture = new LifecycleStore()
  await fixture.sandbox({ name: 'box' })
  await expect(fixture.sandbox({ name: 'box' })).rejects.toThrow('sandbox named box already exists')
  expect(await fixture.store.write(beginCreate, creation({ name: 'box', operator: BOB }))).toMatchObject({
    effect: 'denied',
  })
})

test('no two sandboxes get the same user, and none is allocated for a request that names one or runs as Craik', async () => {
  const fixture = new LifecycleStore()
  const made = [await fixture.sandbox(), await fixture.sandbox(), await fixture.sandbox()]
  expect(new Set(made.map(({ allocated_uid }) => allocated_uid)).size).toBe(3)
  for (const { spec, allocated_uid } of made) {
    expect(allocated_uid).toBeGreaterThanOrEqual(2_100_000_000)
    expect(spec.hostUser).toEqual({ uid: allocated_uid, gid: allocated_uid })
  }
  const named = await fixture.sandbox({ hostUser: { uid: 1000, gid: 1000 } })
  expect(named).toMatchObject({ allocated_uid: null, spec: { hostUser: { uid: 1000 } } })
  const own = await fixture.sandbox({ hostUser: undefined })
  expect(own).toMatchObject({ allocated_uid: null, spec: { hostUser: null } })
})

test('a home holds a limited number of sandboxes, and the refusal does not spend the grant', async () => {
  const { store } = new LifecycleStore()
  const { grant } = await createGrant(store, { ...anyName, max_uses: MAX_SANDBOXES + 1 })
  for (let n = 0; n < MAX_SANDBOXES; n++) await store.write(beginCreate, creation({ grantId: grant.id }))
  await expect(store.write(beginCreate, creation({ grantId: grant.id }))).rejects.toMatchObject({
    code: 'limit_reached',
  })
  expect((await store.tables.grants.get(grant.id))?.usesLeft).toBe(1)
})

test('a variable that looks like a secret is refused, and not recorded', async () => {
  const { store } = new LifecycleStore()
  const value = `ghp_${'a1B2'.repeat(9)}`
  const refused = store.write(beginCreate, creation({ environment: { DEPLOY: value } }))
  await expect(refused).rejects.toThrow('environment.DEPLOY looks like a secret')
  expect(await store.bodies()).toEqual([])
})

test('a record that was edited in the database is refused', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const [record, other] = [await fixture.sandbox({ name: 'box' }), await fixture.sandbox({ name: 'other' })]
  store.database
    .prepare(`UPDATE sandboxes SET document = json_set(document, '$.place.handle.pid', 1) WHERE id = ?`)
    .run(record.id)
  await expect(fixture.begin(record.id)).rejects.toMatchObject({ code: 'tampered' })
  await expect(getSandbox({ store, home: store.home }, 'box')).rejects.toMatchObject({ code: 'tampered' })
  const listed = await listSandboxes({ store, home: store.home })
  expect(listed.find(({ id }) => id === record.id)).toMatchObject({ record: undefined })
  expect(listed.find(({ id }) => id === other.id)).toMatchObject({ record: { name: 'other' } })
  await expect(getSandbox({ store, home: store.home }, newSandboxId())).rejects.toMatchObject({
    code: 'not_found',
  })
})

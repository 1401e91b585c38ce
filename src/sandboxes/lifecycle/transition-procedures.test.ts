import { expect, test } from 'vitest'
import { UNBOUNDED } from './admission.ts'
import {
  ADA_USER,
  approveCreate,
  BOB,
  creation,
  DEAD,
  hello,
  LifecycleStore,
  ME,
  PLACE,
} from './lifecycle.fixture.ts'
import { parseSandbox, type SandboxRecord } from './sandbox-record.ts'
import {
  beginCreate,
  beginDelete,
  beginTransition,
  changeSandbox,
  endDelete,
  endTransition,
} from './tokens.ts'

type Verb = Parameters<typeof begin>[2]

function begin(
  fixture: LifecycleStore,
  { id }: SandboxRecord,
  verb: 'stop' | 'resume' | 'pause',
  more: object = {},
) {
  return fixture.store.write(beginTransition, { id, verb, operator: ADA_USER, owner: ME, ...more })
}

async function runTransition(
  fixture: LifecycleStore,
  record: SandboxRecord,
  verb: Verb,
  instance?: typeof PLACE,
) {
  await begin(fixture, record, verb)
  const ended = await fixture.store.write(endTransition, {
    id: record.id,
    status: 'passed',
    ...(instance && { place: instance }),
  })
  return ended.record
}

test('a stop and a resume keep policy, grants and spec, and end earlier jobs as stopped', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  await fixture.beginAllowed(record.id, hello())
  const stopped = await runTransition(fixture, record, 'stop')
  expect(stopped).toMatchObject({ state: 'stopped', place: null, pending: null })
  const [job] = (await fixture.store.bodies()).filter(
    ({ operation, phase }) => operation === 'exec' && phase === 'end',
  )
  expect(job).toMatchObject({ status: 'failed', metadata: { outcome: 'stopped' } })
  await expect(fixture.begin(record.id)).rejects.toMatchObject({
    code: 'sandbox_stopped',
    message: expect.stringContaining('is stopped; resume it first'),
    hint: `resume it:  craik sandbox resume ${record.name}`,
  })
  const resumed = await runTransition(fixture, record, 'resume', PLACE)
  const { state, spec, owner_grants, policy_envelope_id, operator, allocated_uid } = resumed
  expect({ state, spec, owner_grants, policy_envelope_id, operator, allocated_uid }).toEqual({
    state: 'running',
    spec: record.spec,
    owner_grants: record.owner_grants,
    policy_envelope_id: record.policy_envelope_id,
    operator: record.operator,
    allocated_uid: record.allocated_uid,
  })
  expect(await fixture.begin(record.id)).toMatchObject({ effect: 'allowed' })
})

test('a transition that is already done is decided and recorded with begin and end, and changes nothing', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  expect(await begin(fixture, record, 'resume')).toMatchObject({ effect: 'already' })
  expect(await begin(fixture, record, 'resume', { operator: BOB })).toMatchObject({ effect: 'denied' })
  await runTransition(fixture, record, 'stop')
  expect(await begin(fixture, record, 'stop')).toMatchObject({
    effect: 'already',
    record: { state: 'stopped', pending: null },
  })
  const resumes = (await fixture.store.bodies()).filter(({ operation }) => operation === 'resume')
  expect(resumes.map(({ phase, status }) => [phase, status])).toEqual([
    ['begin', undefined],
    ['end', 'passed'],
    ['point', 'denied'],
  ])
  expect(await fixture.store.tables.openReceipts.list()).toEqual([])
})

test('a paused sandbox is unpaused by a resume, without counting against the limit again', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  const paused = await runTransition(fixture, record, 'pause')
  expect(paused).toMatchObject({ state: 'paused', place: PLACE })
  await expect(fixture.begin(record.id)).rejects.toMatchObject({ code: 'sandbox_stopped' })
  const admission = { ...UNBOUNDED, running: 1 }
  expect(await begin(fixture, record, 'resume', { admission })).toMatchObject({
    effect: 'allowed',
    verb: 'unpause',
    record: { state: 'resuming' },
  })
  const { record: going } = await fixture.store.write(endTransition, { id: record.id, status: 'failed' })
  expect(going).toMatchObject({ state: 'paused', place: PLACE })
})

test('a failed transition restores the earlier state and records the reason', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  await runTransition(fixture, record, 'stop')
  await begin(fixture, record, 'resume')
  const notice = 'it could not be resumed: no room'
  const failed = await fixture.store.write(endTransition, { id: record.id, status: 'failed', notice })
  expect(failed.record).toMatchObject({ state: 'stopped', notice, pending: null })
  await expect(fixture.store.write(endTransition, { id: record.id, status: 'passed' })).rejects.toMatchObject(
    { code: 'conflict' },
  )
})

test('two transitions cannot run at once, and one that a dead process left is taken over on request', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  await begin(fixture, record, 'stop', { owner: DEAD })
  await expect(begin(fixture, record, 'pause')).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('it is being stopped'),
  })
  const { id } = record
  await expect(fixture.store.write(beginDelete, { id, operator: ADA_USER, owner: ME })).rejects.toMatchObject(
    {
      code: 'conflict',
    },
  )
  expect(
    await fixture.store.write(beginDelete, { id, operator: ADA_USER, owner: ME, takeOver: true }),
  ).toMatchObject({ effect: 'allowed', record: { state: 'deleting' } })
  await fixture.store.write(endDelete, { id, status: 'passed' })
  const ends = (await fixture.store.bodies()).filter(({ phase }) => phase === 'end')
  expect(ends.slice(-2).map(({ operation, status }) => [operation, status])).toEqual([
    ['stop', 'indeterminate'],
    ['delete', 'passed'],
  ])
})

test('an idle stop is refused while a job is open', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  await fixture.beginAllowed(record.id, hello())
  await expect(begin(fixture, record, 'stop', { unlessBusy: true })).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(await begin(fixture, record, 'stop')).toMatchObject({ effect: 'allowed' })
})

test('the last free slot goes to one of two requests', async () => {
  const fixture = new LifecycleStore()
  const admission = { ...UNBOUNDED, running: 1 }
  const first = await fixture.sandbox({ admission })
  await runTransition(fixture, first, 'stop')
  await approveCreate(fixture.store, fixture.clock, { operator: ADA_USER })
  const both = await Promise.allSettled([
    fixture.store.write(beginCreate, creation({ admission })),
    begin(fixture, first, 'resume', { admission }),
  ])
  expect(both.map(({ status }) => status)).toEqual(['fulfilled', 'rejected'])
  expect(both[1]).toMatchObject({
    reason: { code: 'limit_reached', details: { limit: 'running', asked: 1, in_use: 1, most: 1 } },
  })
  // The refused request left nothing open.
  expect(await fixture.store.tables.openReceipts.list()).toHaveLength(1)
})

test('a record from before sandboxes had `ends` can be read', async () => {
  const fixture = new LifecycleStore()
  const record = await fixture.sandbox()
  const { ends, active_at_ms, started_at_ms, stopped_at_ms, ...old } = record
  expect([ends, active_at_ms, started_at_ms, stopped_at_ms]).toHaveLength(4)
  expect(parseSandbox(JSON.stringify(old))).toMatchObject({
    ends: { idle_ms: null, lifetime_ms: null, keep_ms: null },
    active_at_ms: null,
  })
})

test('the time of the last activity is recorded, and never goes back', async () => {
  const fixture = new LifecycleStore()
  const { id, active_at_ms } = await fixture.sandbox()
  const laterMs = active_at_ms! + 60_000
  expect(await fixture.store.write(changeSandbox, { id, activeAtMs: laterMs })).toMatchObject({
    active_at_ms: laterMs,
  })
  expect(await fixture.store.write(changeSandbox, { id, activeAtMs: 5 })).toMatchObject({
    active_at_ms: laterMs,
  })
})

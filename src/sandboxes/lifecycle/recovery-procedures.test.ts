import { expect, test } from 'vitest'
import { procedure } from '../../store/store.ts'
import {
  ADA_USER,
  approveCreate,
  creation,
  DEAD,
  EPOCH,
  hello,
  LifecycleStore,
  ME,
} from './lifecycle.fixture.ts'
import {
  adoptJobs,
  beginCreate,
  beginDelete,
  changeSandbox,
  closeLeftEpochs,
  closeOrphans,
  endCreate,
  endDelete,
  endOperation,
} from './tokens.ts'

/** The procedure that the writer thread runs when it starts. */
const closeDead = procedure<undefined, void>('receipts.close_dead')

test('a dead process’s jobs stay open until the sandbox is queried, and its plain calls are closed', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id } = await fixture.sandbox()
  const job = hello()
  const inside = await fixture.beginAllowed(id, { ...job, owner: DEAD })
  const call = await fixture.beginAllowed(id, { operation: 'file_read', owner: DEAD })
  await store.write(closeDead, undefined)
  expect((await store.tables.openReceipts.list()).map(({ id }) => id)).toEqual([inside.id])
  expect((await store.bodies()).at(-1)).toMatchObject({ begin_id: call.id, status: 'indeterminate' })
})

test('a job that the sandbox still has is taken over, and its end receipt says so', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id } = await fixture.sandbox()
  const [stored, lost] = [hello(), hello()]
  const begun = await fixture.beginAllowed(id, { ...stored, owner: DEAD })
  const gone = await fixture.beginAllowed(id, { ...lost, owner: DEAD })
  const keep = [stored.job!.id]
  expect(await store.write(adoptJobs, { id, jobIds: keep, owner: ME })).toMatchObject([
    { jobId: stored.job!.id, operation: 'exec', operator: ADA_USER, begun },
  ])
  expect(await store.write(closeOrphans, { id, keep, owner: ME })).toEqual([lost.job!.id])
  expect((await store.bodies()).at(-1)).toMatchObject({
    begin_id: gone.id,
    status: 'indeterminate',
    metadata: { adopted: true },
  })
  await store.write(endOperation, { id, begun, jobId: stored.job!.id, status: 'passed' })
  expect((await store.bodies()).at(-1)).toMatchObject({
    begin_id: begun.id,
    status: 'passed',
    metadata: { adopted: true },
  })
  expect(await store.tables.openReceipts.list()).toEqual([])
})

test('a living process’s jobs are neither taken over nor ended by another process', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id } = await fixture.sandbox()
  const job = hello()
  await fixture.beginAllowed(id, job)
  const other = { ...ME, pid: ME.pid + 1, startedAt: 'another process' }
  expect(await store.write(adoptJobs, { id, jobIds: [job.job!.id], owner: other })).toEqual([])
  expect(await store.write(closeOrphans, { id, keep: [], owner: other })).toEqual([])
  expect(await store.write(closeOrphans, { id, keep: [], owner: ME })).toEqual([job.job!.id])
})

test('an interrupted creation is closed only by the recovery of the sandbox', async () => {
  const { store, clock } = new LifecycleStore()
  await approveCreate(store, clock, { operator: ADA_USER })
  const input = creation({ owner: DEAD })
  const begun = await store.write(beginCreate, input)
  await store.write(closeDead, undefined)
  expect(await store.tables.openReceipts.list()).toHaveLength(1)
  await store.write(endCreate, { id: input.id, status: 'indeterminate' })
  expect((await store.bodies()).at(-1)).toMatchObject({
    begin_id: begun.effect === 'allowed' && begun.begun.id,
    status: 'indeterminate',
    metadata: { adopted: true },
  })
  expect(await store.tables.openReceipts.list()).toEqual([])
})

test('deleting a sandbox ends its jobs, revokes its grants and frees its name', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id, owner_grants } = await fixture.sandbox({ name: 'box' })
  const job = hello()
  const begun = await fixture.beginAllowed(id, job)
  const answer = await store.write(beginDelete, { id, operator: ADA_USER, owner: ME })
  expect(answer).toMatchObject({ effect: 'allowed', record: { state: 'deleting' } })
  await expect(store.write(beginDelete, { id, operator: ADA_USER, owner: ME })).rejects.toMatchObject({
    code: 'conflict',
  })
  await store.write(endDelete, { id, status: 'passed' })
  const bodies = await store.bodies()
  expect(bodies.find(({ begin_id }) => begin_id === begun.id)).toMatchObject({
    status: 'indeterminate',
    metadata: { deleted: true },
  })
  for (const grant of Object.values(owner_grants))
    expect((await store.tables.grants.get(grant))?.revokedAtMs).not.toBeNull()
  expect(await store.tables.openReceipts.list()).toEqual([])
  expect(await store.tables.sandboxJobs.get(id, job.job!.id)).toBeUndefined()
  expect(await fixture.sandbox({ name: 'box' })).toMatchObject({ name: 'box' })
})

test('a job whose record was edited stays as it is, and blocks neither recovery nor deletion', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id } = await fixture.sandbox()
  const [edited, sound] = [hello(), hello()]
  const evidence = await fixture.beginAllowed(id, { ...edited, owner: DEAD })
  await fixture.beginAllowed(id, { ...sound, owner: DEAD })
  store.database.prepare(`UPDATE sandbox_jobs SET seal = 'x' WHERE job_id = ?`).run(edited.job!.id)
  expect(await store.write(closeOrphans, { id, keep: [], owner: ME })).toEqual([sound.job!.id])
  await store.write(beginDelete, { id, operator: ADA_USER, owner: ME })
  await store.write(endDelete, { id, status: 'passed' })
  // Once the sandbox is gone, the job's begin receipt is like any other of a dead process.
  await store.write(closeDead, undefined)
  expect((await store.bodies()).at(-1)).toMatchObject({ begin_id: evidence.id, status: 'indeterminate' })
})

test('a failed deletion leaves a lost sandbox, which can be deleted again', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id } = await fixture.sandbox()
  await store.write(beginDelete, { id, operator: ADA_USER, owner: ME })
  await store.write(endDelete, { id, status: 'failed', notice: 'a mount is busy' })
  expect(await store.write(changeSandbox, { id })).toMatchObject({ state: 'lost', notice: 'a mount is busy' })
  expect(await store.write(beginDelete, { id, operator: ADA_USER, owner: ME })).toMatchObject({
    effect: 'allowed',
  })
})

test('open jobs end when their sandbox is lost or its deletion fails', async () => {
  for (const how of ['lost', 'not deleted']) {
    const fixture = new LifecycleStore()
    const { store } = fixture
    const { id } = await fixture.sandbox()
    const begun = await fixture.beginAllowed(id, hello())
    if (how === 'lost') await store.write(changeSandbox, { id, state: 'lost' })
    else {
      await store.write(beginDelete, { id, operator: ADA_USER, owner: ME })
      await store.write(endDelete, { id, status: 'failed' })
    }
    const ends = (await store.bodies()).filter(({ begin_id }) => begin_id === begun.id)
    expect(ends, how).toMatchObject([{ status: 'indeterminate', metadata: { outcome: 'lost' } }])
    expect(await store.tables.openReceipts.list()).toEqual([])
  }
})

test('a sandbox that ended by itself leaves one receipt, and no operation begins in it', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id } = await fixture.sandbox()
  await store.write(changeSandbox, { id, state: 'lost', notice: 'its init exited' })
  await store.write(changeSandbox, { id, state: 'lost' })
  const lost = (await store.bodies()).filter(({ operation }) => operation === 'lost')
  expect(lost).toMatchObject([{ status: 'failed', links: { sandbox_id: id } }])
  await expect(fixture.begin(id)).rejects.toThrow('its init exited')
})

test('an epoch whose process died before it counted anything is closed like any other', async () => {
  const fixture = new LifecycleStore()
  const { store } = fixture
  const { id } = await fixture.sandbox()
  await store.write(changeSandbox, { id, epoch: EPOCH })
  expect(await store.write(closeLeftEpochs, { id })).toEqual([EPOCH])
  expect((await store.bodies()).at(-1)).toMatchObject({
    capability: 'sandbox.boundary',
    metadata: { epoch: EPOCH, complete: false },
  })
})

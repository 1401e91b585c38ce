import { beforeEach, describe, expect, it } from 'vitest'
import { ownerOf } from '../../lib/owner.ts'
import {
  ADA_USER,
  approveCreate,
  approveFolder,
  BOB,
  creation,
  DEAD,
  EPOCH,
  LifecycleStore,
  ME,
  newSandboxId,
  PLACE,
} from '../lifecycle/lifecycle.fixture.ts'
import { type BeginCreateInput, beginCreate, endCreate } from '../lifecycle/tokens.ts'
import { type BeginWarmInput, beginWarm, dropWarm, leaveWarm, readyWarm } from './tokens.ts'

/** A living process other than this one. */
const OTHER = ownerOf(process.ppid)!

let scene: LifecycleStore
beforeEach(async () => {
  scene = new LifecycleStore()
  // A home has no warm instance before its first sandbox, and no seal before its first receipt.
  await approveCreate(scene.store, scene.clock, { operator: BOB })
})

async function warm(changes: Partial<BeginWarmInput> = {}) {
  const { backend, isolation, limits } = creation()
  const id = newSandboxId()
  const owner = changes.owner ?? ME
  await scene.store.write(beginWarm, {
    id,
    backend,
    isolation,
    limits,
    hostUser: 'allocate',
    owner,
    ...changes,
  })
  return scene.store.write(readyWarm, { id, place: PLACE, owner })
}

async function create(changes: Partial<BeginCreateInput>) {
  await approveCreate(scene.store, scene.clock, { operator: ADA_USER })
  return scene.store.write(beginCreate, creation(changes))
}

const offer = (id: BeginCreateInput['id']) => ({ adopt: { id, epoch: EPOCH, beganAtMs: 0 } })
const rows = () => scene.store.tables.warmInstances.list({}, 100)

describe('a warm instance', () => {
  it('becomes a running sandbox, in one transaction with its decision, begin, end and grants', async () => {
    const record = await warm()
    const input = creation({ environment: { COLOUR: 'blue' }, ...offer(record.id) })
    await approveCreate(scene.store, scene.clock, { operator: ADA_USER })
    const answer = await scene.store.write(beginCreate, input)
    expect(answer).toMatchObject({
      effect: 'adopted',
      record: {
        id: record.id,
        state: 'running',
        pending: null,
        place: PLACE,
        epoch: EPOCH,
        allocated_uid: record.allocated_uid,
        spec: { environment: { COLOUR: 'blue' }, hostUser: record.spec.hostUser },
      },
    })
    expect(await rows()).toEqual([])
    const bodies = (await scene.store.bodies()).filter(
      ({ capability, phase }) => capability === 'sandbox.create' && phase !== 'point',
    )
    expect(bodies.map(({ phase, status }) => [phase, status])).toEqual([
      ['begin', undefined],
      ['end', 'passed'],
    ])
    for (const body of bodies) {
      expect(body.links).toMatchObject({ sandbox_id: record.id })
      expect(body.metadata).toMatchObject({ warm: true })
    }
    expect(JSON.stringify(bodies)).not.toContain(input.id)
    const epochs = await scene.store.tables.boundaryEpochs.open(record.id)
    expect(epochs.map(({ epoch }) => epoch)).toEqual([EPOCH])
  })

  it('is adopted once, however many requests arrive at the same time', async () => {
    const record = await warm()
    const answers = await Promise.all(Array.from({ length: 20 }, () => create(offer(record.id))))
    expect(answers.filter(({ effect }) => effect === 'adopted')).toHaveLength(1)
    expect(answers.filter(({ effect }) => effect === 'gone')).toHaveLength(19)
  })

  it('is not adopted if it belongs to another process, is not ready, is being ended, or was changed', async () => {
    const [theirs, starting, leaving, edited] = [
      await warm({ owner: OTHER }),
      newSandboxId(),
      await warm(),
      await warm(),
    ]
    const { backend, isolation, limits } = creation()
    await scene.store.write(beginWarm, {
      id: starting,
      backend,
      isolation,
      limits,
      hostUser: 'allocate',
      owner: ME,
    })
    await scene.store.write(leaveWarm, { id: leaving.id, owner: ME })
    scene.store.database
      .prepare(`UPDATE warm_places SET document = replace(document, '4711', '1') WHERE id = ?`)
      .run(edited.id)
    const before = (await scene.store.bodies()).length
    for (const id of [theirs.id, starting, leaving.id, edited.id, newSandboxId()])
      expect(await scene.store.write(beginCreate, creation(offer(id)))).toEqual({ effect: 'gone' })
    expect(await scene.store.bodies()).toHaveLength(before)
  })

  it.each<[string, Partial<BeginCreateInput>]>([
    ['more memory', { limits: { memoryBytes: 1 << 31, processes: 100 } }],
    ['another isolation', { isolation: 'none' }],
    ['the user that Craik runs as', { hostUser: undefined }],
    ['a snapshot', { snapshot: 'snap_00000000000000000000000000' }],
    ['the owner of a folder', { hostUser: { uid: 1000, gid: 1000 } }],
    ['a mount', { mounts: [{ folder: '/srv/project', at: '/mnt/project' }] }],
    ['a folder of the host', { workspace: { mode: 'in-place', folder: '/srv/project' } }],
  ])('is not adopted by a request for %s', async (_, changes) => {
    const { id } = await warm()
    expect(await create({ ...changes, ...offer(id) })).toEqual({ effect: 'gone' })
    expect(await rows()).toHaveLength(1)
  })

  it('stays when the sandbox is denied or its name is taken, and the receipt does not name it', async () => {
    const { id } = await warm()
    const denied = creation(offer(id))
    expect(await scene.store.write(beginCreate, denied)).toMatchObject({ effect: 'denied' })
    const output = JSON.stringify(await scene.store.bodies())
    expect(output).toContain(denied.id)
    expect(output).not.toContain(id)
    await scene.sandbox({ name: 'taken' })
    await approveCreate(scene.store, scene.clock, { operator: ADA_USER, name: 'taken' })
    await expect(
      scene.store.write(beginCreate, creation({ name: 'taken', ...offer(id) })),
    ).rejects.toMatchObject({
      code: 'conflict',
    })
    expect(await rows()).toHaveLength(1)
    expect(await create(offer(id))).toMatchObject({ effect: 'adopted' })
  })
})

describe('a warm instance with hot mounts', () => {
  const OWNER = { uid: 1000, gid: 1000 }
  const IN_PLACE = { workspace: { mode: 'in-place', folder: '/srv/project' }, hostUser: OWNER } as const
  const hotMounts = { workspace: true, mounts: false }

  const createInPlace = async (id: BeginCreateInput['id']) => {
    await approveFolder(scene.store, scene.clock, { folder: IN_PLACE.workspace.folder, use: 'write' })
    return create({ ...IN_PLACE, ...offer(id) })
  }

  it('stays when the folder is denied', async () => {
    const { id } = await warm({ hostUser: OWNER, late: hotMounts })
    expect(await create({ ...IN_PLACE, ...offer(id) })).toMatchObject({ effect: 'denied' })
    expect(await rows()).toHaveLength(1)
    expect(JSON.stringify(await scene.store.bodies())).not.toContain(id)
  })

  it('becomes a sandbox that is being created, and is recorded as warm after its folders are mounted', async () => {
    const { id } = await warm({ hostUser: OWNER, late: hotMounts })
    const answer = await createInPlace(id)
    expect(answer).toMatchObject({
      effect: 'taken',
      record: { id, state: 'creating', place: PLACE, epoch: EPOCH, allocated_uid: null },
    })
    expect(await rows()).toEqual([])
    const { record } = await scene.store.write(endCreate, { id, status: 'passed', place: PLACE, warm: true })
    expect(record).toMatchObject({ id, state: 'running', pending: null })
    const bodies = (await scene.store.bodies()).filter(({ capability }) => capability === 'sandbox.create')
    const reply = bodies
      .filter(({ phase }) => phase !== 'point')
      .map(({ phase, metadata }) => [phase, metadata])
    expect(reply.map(([phase, metadata]) => [phase, (metadata as { warm?: boolean }).warm])).toEqual([
      ['begin', undefined],
      ['end', true],
    ])
  })

  it('leaves only receipts on record when the mounts failed', async () => {
    const { id } = await warm({ hostUser: OWNER, late: hotMounts })
    await createInPlace(id)
    await scene.store.write(endCreate, { id, status: 'failed' })
    expect(await scene.store.tables.sandboxes.get(id)).toBeUndefined()
    expect(await scene.store.tables.boundaryEpochs.open(id)).toEqual([])
  })

  it.each<[string, Partial<BeginCreateInput>]>([
    ['another owner’s folder', { ...IN_PLACE, hostUser: { uid: 1001, gid: 1000 } }],
    ['a mount besides', { ...IN_PLACE, mounts: [{ folder: '/srv/other', at: '/mnt/other' }] }],
    ['a mount alone', { mounts: [{ folder: '/srv/other', at: '/mnt/other' }] }],
    ['no folder', { hostUser: OWNER }],
    ['a folder of nobody', { ...IN_PLACE, hostUser: 'allocate' }],
  ])('is not adopted by a request for %s', async (_, changes) => {
    const { id } = await warm({ hostUser: OWNER, late: hotMounts })
    expect(await create({ ...changes, ...offer(id) })).toEqual({ effect: 'gone' })
    expect(await rows()).toHaveLength(1)
  })
})

describe('users and capacity', () => {
  it('gives each warm instance and each sandbox a different user', async () => {
    const uids: (number | null)[] = []
    for (let i = 0; i < 10; i++) {
      uids.push((await warm()).allocated_uid)
      uids.push((await scene.sandbox()).allocated_uid)
    }
    expect(new Set(uids).size).toBe(20)
    expect(uids).not.toContain(null)
  })

  it('refuses a warm instance that leaves no capacity for a sandbox, and never refuses a sandbox because of one', async () => {
    const admission = { total: 3, running: 2, cpuMillis: 1e6, memoryBytes: 2 ** 40, diskBytes: 2 ** 40 }
    await scene.sandbox()
    await warm({ admission })
    await expect(warm({ admission })).rejects.toMatchObject({ code: 'limit_reached' })
    expect(await create({ admission })).toMatchObject({ effect: 'allowed' })
    await expect(create({ admission })).rejects.toMatchObject({ code: 'limit_reached' })
  })
})

describe('ending a warm instance', () => {
  it('is allowed for its own process, and for another one when that is dead', async () => {
    const [mine, theirs, left] = [await warm(), await warm({ owner: OTHER }), await warm({ owner: DEAD })]
    const release = (id: BeginCreateInput['id']) => scene.store.write(leaveWarm, { id, owner: ME })
    expect(await release(mine.id)).toMatchObject({ effect: 'left', record: { state: 'leaving' } })
    expect(await release(theirs.id)).toEqual({ effect: 'held' })
    expect(await release(left.id)).toMatchObject({ effect: 'left' })
    await scene.store.write(dropWarm, { id: mine.id })
    expect(await release(mine.id)).toEqual({ effect: 'gone' })
  })

  it('never ends a sandbox, whatever was written into the table', async () => {
    const { id } = await scene.sandbox()
    scene.store.database
      .prepare(`INSERT INTO warm_places (id, document, seal, created_at_ms) VALUES (?, '{}', 'none', 1)`)
      .run(id)
    expect(await scene.store.write(leaveWarm, { id, owner: ME })).toEqual({ effect: 'gone' })
    expect(await rows()).toEqual([])
  })

  it('returns no record for a row that was changed', async () => {
    const { id } = await warm()
    scene.store.database.prepare(`UPDATE warm_places SET seal = 'v1:none' WHERE id = ?`).run(id)
    expect(await scene.store.write(leaveWarm, { id, owner: ME })).toEqual({
      effect: 'left',
      record: undefined,
    })
  })
})

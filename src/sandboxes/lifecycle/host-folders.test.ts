import { expect, test } from 'vitest'
import { deniedOperationError } from './denied-operation.ts'
import { ADA_USER, approveCreate, approveFolder, BOB, creation, LifecycleStore } from './lifecycle.fixture.ts'
import { parseSandbox } from './sandbox-record.ts'
import { beginCreate } from './tokens.ts'

const FOLDER = '/team/project'
const inPlace = { workspace: { mode: 'in-place' as const, folder: FOLDER }, hostUser: undefined }
const container = {
  image: `sha256:${'a'.repeat(64)}`,
  imageName: 'craik/sandbox:1',
  runtime: 'runc' as const,
  line: 'socket' as const,
  state: 'folder' as const,
  engine: 'ONE',
}
const withMounts = (...folders: readonly string[]) => ({
  backend: 'docker' as const,
  isolation: 'container' as const,
  container,
  mounts: folders.map((folder, index) => ({ folder, at: `/mnt/m${index}` })),
  stated: {
    network: 'none' as const,
    mounts: { all: folders.length, writable: 0 },
    image: true,
    environment: true,
    workspace: true,
  },
})

test('a grant to create a sandbox does not allow it to write a folder, and the denial names the missing grant', async () => {
  const { store, clock } = new LifecycleStore()
  const { grant } = await approveCreate(store, clock, { operator: ADA_USER, name: 'box' })
  const answer = await store.write(beginCreate, creation({ name: 'box', ...inPlace, grantId: grant.id }))
  if (answer.effect !== 'denied') throw new Error('it was allowed')
  expect(deniedOperationError(answer)).toMatchObject({
    code: 'denied',
    message: expect.stringContaining('sandbox.mount on sandbox/box'),
    hint: expect.stringMatching(
      /craik grant create --capability sandbox\.mount .*--operation write .*--path \/team\/project/,
    ),
  })
  expect((await store.bodies()).at(-1)).toMatchObject({
    kind: 'denial',
    capability: 'sandbox.mount',
    operation: 'write',
    target: 'sandbox/box',
    decision: { input: { request: { path: FOLDER } } },
  })
  expect(await store.tables.sandboxes.list({}, 10)).toEqual([])
  expect((await store.tables.grants.get(grant.id))?.usesLeft).toBe(1)
})

test.each([
  { folder: '/team', use: 'write' },
  { folder: `${FOLDER}/part`, use: 'write' },
  { folder: FOLDER, use: 'read' },
  { folder: FOLDER, use: 'write', operator: BOB },
])('a grant for something else does not allow the folder: %j', async (provided) => {
  const { store, clock } = new LifecycleStore()
  await approveCreate(store, clock, { operator: ADA_USER })
  await approveFolder(store, clock, provided)
  expect(await store.write(beginCreate, creation(inPlace))).toMatchObject({ effect: 'denied' })
})

test('with grants for both, one use of each is spent, and the receipt names that of the folder', async () => {
  const { store, clock } = new LifecycleStore()
  const create = await approveCreate(store, clock, { operator: ADA_USER })
  const folder = await approveFolder(store, clock, { folder: FOLDER, use: 'write' })
  const answer = await store.write(beginCreate, creation(inPlace))
  expect(answer).toMatchObject({ effect: 'allowed' })
  for (const { grant } of [create, folder])
    expect((await store.tables.grants.get(grant.id))?.usesLeft).toBe(0)
  const bodies = await store.bodies()
  const [begin, end] = bodies.filter(({ capability }) => capability === 'sandbox.mount')
  expect(begin).toMatchObject({ phase: 'begin', links: { grant_id: folder.grant.id } })
  expect(end).toMatchObject({ phase: 'end', status: 'passed', begin_id: begin!.id })
  expect(
    bodies.find(({ phase, capability }) => phase === 'begin' && capability === 'sandbox.create'),
  ).toMatchObject({
    links: { receipt_ids: [begin!.id] },
  })
  expect(await store.write(beginCreate, creation(inPlace))).toMatchObject({ effect: 'denied' })
})

test('without a grant to create the sandbox, its folders are not evaluated', async () => {
  const { store, clock } = new LifecycleStore()
  const { grant } = await approveFolder(store, clock, { folder: FOLDER, use: 'write' })
  expect(await store.write(beginCreate, creation(inPlace))).toMatchObject({
    effect: 'denied',
    asked: { capability: 'sandbox.create' },
  })
  expect((await store.tables.grants.get(grant.id))?.usesLeft).toBe(1)
})

test('each mounted folder needs a grant to read it, and is recorded with the sandbox', async () => {
  const { store, clock } = new LifecycleStore()
  await approveCreate(store, clock, { operator: ADA_USER })
  await approveFolder(store, clock, { folder: '/team/a', use: 'read' })
  const requested = withMounts('/team/a', '/team/b')
  expect(await store.write(beginCreate, creation(requested))).toMatchObject({
    effect: 'denied',
    asked: { capability: 'sandbox.mount', operation: 'read', path: '/team/b' },
  })
  await approveFolder(store, clock, { folder: '/team/b', use: 'read' })
  expect(await store.write(beginCreate, creation(requested))).toMatchObject({
    effect: 'allowed',
    record: { spec: { mounts: requested.mounts } },
  })
})

test('one use of a grant is not spent on two folders', async () => {
  const { store, clock } = new LifecycleStore()
  await approveCreate(store, clock, { operator: ADA_USER })
  await approveFolder(store, clock, { folder: '/team/*', use: 'read' })
  expect(await store.write(beginCreate, creation(withMounts('/team/a', '/team/b')))).toMatchObject({
    effect: 'denied',
    asked: { path: '/team/b' },
  })
  expect(await store.tables.sandboxes.list({}, 10)).toEqual([])
})

test('a fork keeps the mounts of the original sandbox, and needs a grant for any other', async () => {
  const fixture = new LifecycleStore()
  const { store, clock } = fixture
  const { id: forkOf } = await fixture.sandbox(withMounts('/team/a'))
  await approveCreate(store, clock, { operator: ADA_USER })
  const more = creation({ ...withMounts('/team/a', '/team/b'), forkOf })
  expect(await store.write(beginCreate, more)).toMatchObject({ effect: 'denied', asked: { path: '/team/b' } })
  const same = creation({ ...withMounts('/team/a'), forkOf })
  expect(await store.write(beginCreate, same)).toMatchObject({ effect: 'allowed' })
})

test('a record without a list of mounts has none', async () => {
  const record = await new LifecycleStore().sandbox()
  const { mounts: _, ...spec } = record.spec
  expect(parseSandbox(JSON.stringify({ ...record, spec })).spec.mounts).toEqual([])
})

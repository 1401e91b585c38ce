import { expect, test } from 'vitest'
import { BOB, creation, LifecycleStore } from './lifecycle.fixture.ts'
import { beginCreate } from './tokens.ts'

const inPlace = (folder: string) => ({
  workspace: { mode: 'in-place' as const, folder },
  hostUser: { uid: 1000, gid: 1000 },
})

test.each(['/team/project/part', '/team'])(
  'no sandbox works in %s while another one works in /team/project',
  async (folder) => {
    const fixture = new LifecycleStore()
    await fixture.sandbox({ name: 'first', ...inPlace('/team/project') })
    await expect(fixture.sandbox(inPlace(folder))).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('overlaps the in-place workspace of sandbox first'),
    })
  },
)

test('folders with similar names do not overlap, and neither do copies', async () => {
  const fixture = new LifecycleStore()
  await fixture.sandbox(inPlace('/team/project'))
  for (const folder of ['/team/project-two', '/team/pro', '/other/team/project'])
    await fixture.sandbox(inPlace(folder))
  await fixture.sandbox()
})

test('two sandboxes can share the same folder', async () => {
  const fixture = new LifecycleStore()
  await fixture.sandbox(inPlace('/team/project'))
  await fixture.sandbox(inPlace('/team/project'))
})

test('an operator who may create no sandbox does not learn which folders are in use', async () => {
  const fixture = new LifecycleStore()
  await fixture.sandbox(inPlace('/team/project'))
  const answer = await fixture.store.write(beginCreate, creation({ operator: BOB, ...inPlace('/team') }))
  expect(answer).toMatchObject({ effect: 'denied' })
})

const SAID = { network: 'none', mounts: { all: 1, writable: 0 }, image: true } as const
const container = {
  image: `sha256:${'a'.repeat(64)}`,
  imageName: 'craik/sandbox:1',
  runtime: 'runc' as const,
  line: 'socket' as const,
  state: 'folder' as const,
  engine: 'ONE',
}
const reading = (folder: string) => ({
  backend: 'docker' as const,
  isolation: 'container' as const,
  container,
  mounts: [{ folder, at: '/mnt/library' }],
  stated: { ...SAID, environment: true, workspace: true },
})

test('no sandbox can mount a folder that another one could replace, whichever was created first', async () => {
  const fixture = new LifecycleStore()
  await fixture.sandbox({ name: 'writer', ...inPlace('/team/project') })
  await expect(fixture.sandbox(reading('/team/project/part'))).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('inside the in-place workspace of sandbox writer'),
  })
  await fixture.sandbox({ name: 'reader', ...reading('/team/library/docs') })
  await expect(fixture.sandbox(inPlace('/team/library'))).rejects.toMatchObject({
    code: 'conflict',
    message: expect.stringContaining('sandbox reader mounts a folder'),
  })
  await expect(
    fixture.sandbox({ ...reading('/team/own/part'), ...inPlace('/team/own') }),
  ).rejects.toMatchObject({ code: 'conflict' })
})

test('a folder that a sandbox works in can be mounted as a whole, and so can its parent', async () => {
  const fixture = new LifecycleStore()
  await fixture.sandbox(inPlace('/team/project'))
  await fixture.sandbox(reading('/team/project'))
  await fixture.sandbox(reading('/team'))
})

import { expect, test } from 'vitest'
import { ADA, approveCreate, BOB, creation, LifecycleStore } from './lifecycle.fixture.ts'
import { beginCreate } from './tokens.ts'

const inPlace = (folder: string) => ({
  workspace: { mode: 'in-place' as const, folder },
  hostUser: { uid: 1000, gid: 1000 },
})

test.each(['/team/project/part', '/team'])(
  'no sandbox works in %s while one works in /team/project',
  async (folder) => {
    const fixture = new LifecycleStore()
    await fixture.sandbox({ name: 'first', ...inPlace('/team/project') })
    await expect(fixture.sandbox(inPlace(folder))).rejects.toMatchObject({
      code: 'conflict',
      message: expect.stringContaining('overlaps that of sandbox first'),
    })
  },
)

test('folders that only have similar names do not overlap, and neither do copies', async () => {
  const fixture = new LifecycleStore()
  await fixture.sandbox(inPlace('/team/project'))
  for (const folder of ['/team/project-two', '/team/pro', '/other/team/project'])
    await fixture.sandbox(inPlace(folder))
  await fixture.sandbox()
})

test('two sandboxes share the same folder', async () => {
  const fixture = new LifecycleStore()
  await fixture.sandbox(inPlace('/team/project'))
  await fixture.sandbox(inPlace('/team/project'))
})

test('who may create none is not told which folders are worked in', async () => {
  const { store, clock } = new LifecycleStore()
  await approveCreate(store, clock, { operator: ADA })
  await store.write(beginCreate, creation(inPlace('/team/project')))
  const answer = await store.write(beginCreate, creation({ operator: BOB, ...inPlace('/team') }))
  expect(answer).toMatchObject({ effect: 'denied' })
})

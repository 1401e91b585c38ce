import { expect, it } from 'vitest'
import { CraikError } from '../../errors.ts'
import type { SandboxBackend } from '../backend.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import { planContainerSpec } from './create-from-snapshot.ts'

const PINNED = `sha256:${'a'.repeat(64)}`
const snapshot = {
  name: 'before',
  manifest: {
    backend: 'docker',
    image: { id: PINNED, name: 'craik/sandbox:1' },
    spec: { workspace: 'copy' },
  },
} as SnapshotRecord

function backend(plan: NonNullable<SandboxBackend['plan']>): SandboxBackend {
  return { plan } as SandboxBackend
}

it('names the image that a snapshot needs when the engine does not have it', async () => {
  const without = backend(async () => {
    throw new CraikError('not_found', 'no such image')
  })
  await expect(planContainerSpec(without, { image: PINNED }, snapshot)).rejects.toMatchObject({
    code: 'not_found',
    message: expect.stringContaining(`craik/sandbox:1 (${PINNED})`),
  })
})

it('uses a Craik image with the same contents when the pinned image is lost, and no other', async () => {
  const made = `sha256:${'c'.repeat(64)}`
  const engine = backend(async ({ image }) => {
    if (image === PINNED) throw new CraikError('not_found', 'no such image')
    return { image: made, imageName: image!, runtime: 'runc', line: 'socket', state: 'folder', engine: 'e' }
  })
  const pinTo = (name: string) =>
    ({ ...snapshot, manifest: { ...snapshot.manifest, image: { id: PINNED, name } } }) as SnapshotRecord
  const own = pinTo('craik/sandbox:0123456789ab')
  expect(await planContainerSpec(engine, { image: PINNED }, own)).toMatchObject({
    image: made,
    imageName: 'craik/sandbox:0123456789ab',
  })
  for (const name of ['mine:1', 'craik/sandbox:mine', 'craik/sandbox:0123456789ab-ba9876543210'])
    await expect(planContainerSpec(engine, { image: PINNED }, pinTo(name))).rejects.toMatchObject({
      code: 'not_found',
    })
})

it('uses no other image instead, and keeps the name of the image', async () => {
  const with_ = (image: string) =>
    backend(async () => ({
      image,
      imageName: image,
      runtime: 'runc',
      line: 'socket',
      state: 'folder',
      engine: 'e',
    }))
  const other = `sha256:${'b'.repeat(64)}`
  await expect(planContainerSpec(with_(other), { image: 'other' }, snapshot)).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(await planContainerSpec(with_(PINNED), {}, snapshot)).toMatchObject({ imageName: 'craik/sandbox:1' })
})

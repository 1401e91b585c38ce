import { expect, it } from 'vitest'
import { CraikError } from '../../errors.ts'
import type { SandboxBackend } from '../backend.ts'
import type { SnapshotRecord } from '../snapshots/snapshot-record.ts'
import { planned } from './create-from.ts'

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
  await expect(planned(without, { image: PINNED }, snapshot)).rejects.toMatchObject({
    code: 'not_found',
    message: expect.stringContaining(`craik/sandbox:1 (${PINNED})`),
  })
})

it('takes no other image in its stead, and calls it by its name', async () => {
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
  await expect(planned(with_(other), { image: 'other' }, snapshot)).rejects.toMatchObject({
    code: 'conflict',
  })
  expect(await planned(with_(PINNED), {}, snapshot)).toMatchObject({ imageName: 'craik/sandbox:1' })
})

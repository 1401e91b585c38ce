/** Snapshots of containers: running and stopped, restored, forked, and used only for containers with the same image. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { SandboxBody, SnapshotBody } from '../../src/operator/api/bodies.ts'
import { ENGINE_IS_NEEDED } from '../engine-here.ts'
import { canBe, IDENTITIES, ROOT_IS_NEEDED, SandboxHome } from '../sandbox-home.ts'

describe.each(IDENTITIES)('as %s', (identity) => {
  const missing = canBe(identity) ? ENGINE_IS_NEEDED : ROOT_IS_NEEDED
  describe.skipIf(missing !== undefined)(missing ?? 'a container', () => {
    let home: SandboxHome
    beforeAll(async () => {
      home = await SandboxHome.open({ identity, backend: 'docker', line: 'socket' })
      await home.create(['--name', 'box'])
    })
    afterAll(() => home[Symbol.asyncDispose]())

    const inside = async (name: string, script: string) => {
      const ran = await home.run(['sandbox', 'exec', name, '--no-stdin', '--', 'sh', '-c', script])
      expect(ran).toMatchObject({ code: 0 })
      return ran.stdout
    }

    it('is snapshotted while it is frozen, and restored', async () => {
      await inside('box', 'echo one > a; mkdir d; ln -s /etc/shadow d/l; ln a d/h')
      const made = await home.json<SnapshotBody>(['sandbox', 'snapshot', 'box', '--name', 'before'])
      const { container } = await home.json<SandboxBody>(['sandbox', 'show', 'box'])
      expect(made).toMatchObject({
        backend: 'docker',
        image: { id: container!.image, name: container!.image_name },
        content: { files: 1, links: 2, still: true },
      })
      await inside('box', 'rm -r d; echo two > a')
      const back = await home.json<SandboxBody>(['sandbox', 'restore', 'box', 'before'])
      expect(back).toMatchObject({ state: 'running', container })
      expect(await inside('box', 'cat a; readlink d/l; stat -c "%h %U" a')).toBe(
        'one\n/etc/shadow\n2 agent\n',
      )
    })

    it('is snapshotted, restored and forked while it is stopped', async () => {
      expect((await home.run(['sandbox', 'stop', 'box'])).code).toBe(0)
      await home.json<SnapshotBody>(['sandbox', 'snapshot', 'box', '--name', 'stopped'])
      const back = await home.json<SandboxBody>(['sandbox', 'restore', 'box', 'stopped'])
      expect(back.state).toBe('stopped')
      const fork = await home.json<SandboxBody>(['sandbox', 'fork', 'box', '--name', 'child'])
      expect(fork).toMatchObject({ state: 'running', container: back.container, limits: back.limits })
      await inside('child', 'cat a; echo child > a')
      expect((await home.run(['sandbox', 'resume', 'box'])).code).toBe(0)
      expect(await inside('box', 'cat a')).toBe('one\n')
    })

    it('has snapshots that create a container again, and no other kind of sandbox', async () => {
      const made = await home.json<SandboxBody>(['sandbox', 'create', '--from', 'before', '--name', 'made'])
      expect(made).toMatchObject({ backend: 'docker', isolation: 'container' })
      expect(await inside('made', 'cat a')).toBe('one\n')
      const other = await home.run(['sandbox', 'create', '--from', 'before', '--backend', 'process'])
      expect(other).toMatchObject({ code: 4, stderr: expect.stringContaining('from a docker sandbox') })
    })
  })
})

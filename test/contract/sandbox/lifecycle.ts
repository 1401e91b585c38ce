/** A stopped sandbox keeps its files and permissions. A paused sandbox is frozen. */
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { LiveSandbox } from '../../sandbox-home.ts'
import type { GetInstance } from './instance.ts'

export function lifecycleContract(getInstance: GetInstance): void {
  describe('stopping, resuming and pausing', () => {
    let box: LiveSandbox
    beforeAll(async () => {
      box = await getInstance().home.create([
        '--name',
        'stopping',
        '--env',
        'KEPT=yes',
        '--idle-timeout',
        'never',
      ])
    })
    afterAll(() => box.delete())

    it('keeps the disk, the environment and the limits, and refuses every operation meanwhile', async () => {
      const { client, home } = getInstance()
      await box.exec(['sh', '-c', 'umask 077; echo data > kept; ln -s /etc/passwd link; echo home > ~/there'])
      const before = await client.sandboxes.get(box.id)
      expect(await client.sandboxes.stop(box.id)).toMatchObject({ state: 'stopped', connected: false })
      expect(await home.findLeftovers(box.id)).toEqual([])
      for (const attempt of [
        () => box.exec(['true']),
        () => client.files.stat(box.id, '.'),
        () => client.sandboxes.stats(box.id),
        () => client.sandboxes.connectPort(box.id, 80),
      ])
        await expect(attempt()).rejects.toMatchObject({
          code: 'sandbox_stopped',
          message: 'sandbox stopping is stopped; resume it first',
          hint: 'resume it:  craik sandbox resume stopping',
        })
      // Stopping it again has no effect.
      expect(await client.sandboxes.stop(box.id)).toMatchObject({ state: 'stopped' })
      expect(await client.sandboxes.resume(box.id)).toMatchObject({ state: 'running', connected: true })
      expect(await client.sandboxes.resume(box.id)).toMatchObject({ state: 'running' })
      const { limits, enforced, isolation, host_uid, container, policy_envelope_id } =
        await client.sandboxes.get(box.id)
      expect({ limits, enforced, isolation, host_uid, container, policy_envelope_id }).toEqual({
        limits: before.limits,
        enforced: before.enforced,
        isolation: before.isolation,
        host_uid: before.host_uid,
        container: before.container,
        policy_envelope_id: before.policy_envelope_id,
      })
      const found = await box.exec([
        'sh',
        '-c',
        'stat -c %a kept; cat kept ~/there; readlink link; echo $KEPT',
      ])
      expect(found.stdout).toBe('600\ndata\nhome\n/etc/passwd\nyes\n')
    })

    it('gives jobs only the grace period to end by themselves', async () => {
      const { client, home } = getInstance()
      const script = 'trap "echo graceful > graceful; exit 0" TERM; touch ready; while :; do sleep 0.1; done'
      const detach = (argv: string[]) =>
        home.json<{ job_id: string }>(['sandbox', 'exec', box.id, '--detach', '--', ...argv])
      await detach(['sh', '-c', script])
      await detach(['sh', '-c', 'trap "" TERM; while :; do sleep 0.1; done'])
      await box.exec(['sh', '-c', 'until [ -e ready ]; do sleep 0.1; done'])
      await client.sandboxes.stop(box.id, { grace_ms: 3_000 })
      await client.sandboxes.resume(box.id)
      expect((await box.exec(['cat', 'graceful'])).stdout).toBe('graceful\n')
      expect(
        (await box.exec(['sh', '-c', 'ps -e -o args= 2>/dev/null | grep -c "[t]rap"'])).stdout.trim(),
      ).toBe('0')
    })

    it('freezes its processes while it is paused, and continues them afterwards, or reports why it cannot', async () => {
      const { client, home } = getInstance()
      await home.json([
        'sandbox',
        'exec',
        box.id,
        '--detach',
        '--',
        'sh',
        '-c',
        'i=0; while sleep 0.05; do i=$((i+1)); echo $i > count; done',
      ])
      const count = async () => Number((await box.exec(['sh', '-c', 'cat count || echo 0'])).stdout)
      while ((await count()) < 1);
      const paused = await client.sandboxes.pause(box.id).catch((error) => error as { readonly code: string })
      if ('code' in paused) {
        expect(paused).toMatchObject({
          code: 'unavailable',
          message: expect.stringContaining('cannot be paused'),
        })
        expect((await box.exec(['true'])).code).toBe(0)
        return
      }
      expect(paused).toMatchObject({ state: 'paused' })
      expect(await client.sandboxes.pause(box.id)).toMatchObject({ state: 'paused' })
      await expect(box.exec(['true'])).rejects.toMatchObject({ code: 'sandbox_stopped' })
      expect(await client.sandboxes.resume(box.id)).toMatchObject({ state: 'running' })
      const resumedAt = await count()
      while ((await count()) <= resumedAt);
      await client.sandboxes.pause(box.id)
      expect(await client.sandboxes.stop(box.id)).toMatchObject({ state: 'stopped' })
      expect(await home.findLeftovers(box.id)).toEqual([])
      await client.sandboxes.resume(box.id)
      expect((await box.exec(['cat', 'kept'])).stdout).toBe('data\n')
    })
  })
}

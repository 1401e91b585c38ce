/** The processes and metrics of a sandbox, as the sandbox reports them and as the host observes them. */
import { describe, expect, it } from 'vitest'
import { type GetInstance, newJobId, runWhole, waitUntil } from './instance.ts'

export function processContract(getInstance: GetInstance): void {
  describe('processes', () => {
    it('are listed with their job, and can receive signals', async () => {
      const { client, box } = getInstance()
      const jobId = newJobId()
      const argv = ['sh', '-c', 'sleep 984; echo "it ended: $?"']
      const running = runWhole(getInstance(), { kind: 'exec', argv }, { jobId })
      const sleeping = async () =>
        (await client.sandboxes.processes(box.id)).find(({ job, name }) => job === jobId && name === 'sleep')
      await waitUntil(async () => (await sleeping()) !== undefined)
      const { pid, parent, memory_bytes } = (await sleeping())!
      expect([pid, parent, memory_bytes].every((number) => number > 0)).toBe(true)
      await client.sandboxes.signalProcess(box.id, pid, 'SIGKILL')
      expect((await running).stdout.toString()).toBe('it ended: 137\n')
    })

    it('that do not exist cannot receive signals', async () => {
      const { client, box } = getInstance()
      const signalling = client.sandboxes.signalProcess(box.id, 4_000_000, 'SIGTERM')
      await expect(signalling).rejects.toMatchObject({ code: 'not_found' })
      const nonsense = client.sandboxes.signalProcess(box.id, 1, 'NONSENSE')
      await expect(nonsense).rejects.toMatchObject({ code: 'usage' })
    })

    it('without a parent are reaped', async () => {
      const { client, box } = getInstance()
      await box.exec(['sh', '-c', 'for i in 1 2 3 4 5; do (sh -c "sleep 0.1" &) ; done'])
      await waitUntil(async () => {
        const all = await client.sandboxes.processes(box.id)
        return all.every(({ state, name }) => !state.startsWith('Z') && name !== 'sleep')
      })
    })

    it('of a job receive its signals as a group', async () => {
      const { client, box } = getInstance()
      const jobId = newJobId()
      const argv = ['sh', '-c', 'trap "echo caught; exit 4" USR1; echo up; while :; do sleep 0.05; done']
      const running = runWhole(getInstance(), { kind: 'exec', argv }, { jobId })
      await waitUntil(async () => {
        const job = await client.jobs.get(box.id, jobId).catch(() => undefined)
        return (job?.position ?? 0) > 0
      })
      await client.jobs.signal(box.id, jobId, 'SIGUSR1')
      const { result, stdout } = await running
      expect([result.exitCode, stdout.toString()]).toEqual([4, 'up\ncaught\n'])
    })
  })

  describe('metrics', () => {
    it('report usage, limits and how each limit is enforced', async () => {
      const { client, box } = getInstance()
      const { observed, claimed, limits, enforced } = await client.sandboxes.stats(box.id)
      expect(claimed).toMatchObject({
        memory_bytes: expect.any(Number),
        processes: expect.any(Number),
        cpu_ms: expect.any(Number),
        disk_free_bytes: expect.any(Number),
      })
      expect(claimed.processes).toBeGreaterThan(0)
      expect(observed.processes).toBeGreaterThan(0)
      expect(limits).toEqual(box.body.limits)
      expect(enforced).toEqual(box.body.enforced)
    })

    it('increase with usage', async () => {
      const { client, box } = getInstance()
      const usedBytes = async () => (await client.sandboxes.stats(box.id)).claimed.disk_used_bytes
      // Others share a disk that is not the sandbox's own, and can free the same amount at the same moment.
      await waitUntil(async () => {
        const before = await usedBytes()
        await box.exec(['sh', '-c', 'head -c 20000000 /dev/urandom > used'])
        const after = await usedBytes()
        await box.exec(['rm', 'used'])
        return after - before > 15_000_000
      })
    })
  })
}

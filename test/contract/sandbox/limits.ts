/** A sandbox that exhausts its limits: its programs fail, but the sandbox itself still works and reports the cause. */
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import type { EnforcedBody } from '../../../src/operator/api/bodies.ts'
import { runJob } from '../../../src/sdk/run-job.ts'
import { writeFile } from '../../../src/sdk/transfer.ts'
import type { LiveSandbox } from '../../sandbox-home.ts'
import { expectRunsCommands, type GetInstance, newJobId, runWhole, waitUntil } from './instance.ts'

const PROCESSES = 64

export function limitContract(getInstance: GetInstance): void {
  describe('a small sandbox', () => {
    let box: LiveSandbox
    let enforced: EnforcedBody
    beforeAll(async () => {
      box = await getInstance().home.create([
        '--memory',
        '256m',
        '--pids',
        String(PROCESSES),
        '--disk',
        '64m',
      ])
      enforced = box.body.enforced!
    })
    afterAll(() => box.delete())

    it('reports how each limit is enforced', () => {
      expect(['cgroup', 'per-process']).toContain(enforced.memory)
      expect(['cgroup', 'sandbox']).toContain(enforced.processes)
      expect(['filesystem', 'not-enforced']).toContain(enforced.disk)
      expect(enforced.cpu).toBe('not-asked')
    })

    it('survives a program that uses all memory', async () => {
      const { client } = getInstance()
      const { result } = await runWhole(
        getInstance(),
        { kind: 'exec', argv: ['tail', '/dev/zero'] },
        { sandbox: box },
      )
      expect(result).not.toMatchObject({ outcome: 'exited', exitCode: 0 })
      await expectRunsCommands(box)
      if (enforced.memory !== 'cgroup') return
      expect((await client.sandboxes.stats(box.id)).observed.out_of_memory_kills).toBeGreaterThan(0)
      const types: string[] = []
      for await (const { type } of client.sandboxes.events(box.id)) types.push(type)
      expect(types).toContain('out_of_memory')
    })

    it('survives a fork bomb', async () => {
      const { client } = getInstance()
      const jobId = newJobId()
      const bomb = 'bomb() { bomb | bomb & }; bomb; sleep 981'
      const running = runJob(client, box.id, { kind: 'exec', argv: ['bash', '-c', bomb] }, { jobId })
      running.catch(() => {})
      await waitUntil(async () => {
        const { observed, claimed } = await client.sandboxes.stats(box.id)
        const processes = observed.processes ?? claimed.processes
        expect(processes).toBeLessThanOrEqual(PROCESSES + 8)
        return processes >= PROCESSES / 2
      })
      // The sandbox may have no process left for a command, and must report that.
      const refused = await box.exec(['true']).catch((error: { readonly code: string }) => error.code)
      if (typeof refused === 'string') expect(refused).toBe('limit_reached')
      expect((await client.sandboxes.processes(box.id)).length).toBeGreaterThan(1)
      await client.jobs.cancel(box.id, jobId)
      await waitUntil(async () => {
        for (const { pid, name } of await client.sandboxes.processes(box.id))
          if (name === 'bash') await client.sandboxes.signalProcess(box.id, pid, 'SIGKILL').catch(() => {})
        return (await box.exec(['true']).catch(() => undefined))?.code === 0
      })
      await expectRunsCommands(box)
    })

    it('survives a full disk, and reports that it is full', async () => {
      const { client } = getInstance()
      const write = (path: string, size: number) =>
        writeFile(client, box.id, path, {
          bytes: size,
          mode: 0o644,
          open: (offset) => Readable.from([Buffer.alloc(size - offset)], { objectMode: false }),
        })
      // Without an enforced limit, the test would fill the disk of the host.
      if (enforced.disk !== 'filesystem') {
        expect(enforced.disk).toBe('not-enforced')
        return
      }
      const { code, stderr } = await box.exec(['sh', '-c', 'head -c 200000000 /dev/zero > full'])
      expect([code, stderr]).toEqual([1, expect.stringContaining('No space left')])
      await expect(write('more', 20_000_000)).rejects.toMatchObject({ code: 'limit_reached' })
      // Output that cannot be stored blocks its program, and none of it is lost.
      const { result, stdout } = await runWhole(
        getInstance(),
        { kind: 'exec', argv: ['head', '-c', '5000000', '/dev/zero'] },
        { sandbox: box },
      )
      expect([result.exitCode, stdout.length]).toEqual([0, 5_000_000])
      expect((await client.sandboxes.stats(box.id)).claimed.disk_free_bytes).toBeLessThan(10_000_000)
      await client.files.remove(box.id, 'full')
      await write('more', 20_000_000)
      await expectRunsCommands(box)
    })
  })
}

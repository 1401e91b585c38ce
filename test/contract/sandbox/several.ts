/** Several sandboxes: they are isolated from each other, have unique names, and leave nothing after their deletion. */
import { existsSync } from 'node:fs'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import {
  expectRunsCommands,
  type GetInstance,
  NODE_INSIDE,
  newJobId,
  runWhole,
  waitUntil,
} from './instance.ts'

export function severalContract(getInstance: GetInstance): void {
  describe('two sandboxes', () => {
    it('cannot see each other', async () => {
      const { home, client, box } = getInstance()
      const other = await home.create(['--name', 'other'])
      await box.exec([
        'sh',
        '-c',
        'echo mine > only-here; echo mine > /tmp/only-here; echo mine > /dev/shm/only-here',
      ])
      const look =
        'ls /workspace/home/project /workspace/home /tmp /dev/shm; find / -name only-here 2>/dev/null'
      expect((await other.exec(['sh', '-c', look])).stdout).not.toContain('only-here')

      const jobId = newJobId()
      const server = `require('net').createServer((s) => s.on('error', () => {}).end('mine')).listen(7010, '127.0.0.1', () => console.log('up'))`
      const abstract = `require('net').createServer((s) => s.on('error', () => {}).end()).listen('\\0contract', () => console.log('up'))`
      const serving = runWhole(
        getInstance(),
        { kind: 'exec', argv: [NODE_INSIDE, '-e', `${server};${abstract}`] },
        { jobId },
      )
      serving.catch(() => {})
      const reach = (to: string) =>
        `require('net').connect(${to}).on('connect', () => process.exit(0)).on('error', (e) => { console.log(e.code); process.exit(1) })`
      const targets = ['{ host: "127.0.0.1", port: 7010 }', `'\\0contract'`]
      for (const to of targets) {
        // The server is reachable in its own sandbox.
        await waitUntil(async () => (await box.exec([NODE_INSIDE, '-e', reach(to)])).code === 0)
        expect((await other.exec([NODE_INSIDE, '-e', reach(to)])).stdout).toBe('ECONNREFUSED\n')
      }
      await expect(client.sandboxes.connectPort(other.id, 7010)).rejects.toMatchObject({
        code: 'refused_inside',
      })
      await expect(client.jobs.get(other.id, jobId)).rejects.toMatchObject({ code: 'not_found' })

      const theirs = (await client.sandboxes.processes(other.id)).map(({ job }) => job)
      expect(theirs).not.toContain(jobId)
      expect((await client.jobs.get(box.id, jobId)).state).toBe('running')
      await client.jobs.cancel(box.id, jobId)
      await client.sandboxes.delete(other.id)
      await expectRunsCommands(box)
    })

    it('have different names, or the second is not created', async () => {
      const { home, client } = getInstance()
      const twin = await home.create(['--name', 'twin'])
      const { code, stderr } = await home.tryToCreate(['--name', 'twin'])
      expect(code).toBe(4)
      expect(stderr).toContain('twin')
      const all = await client.sandboxes.list()
      expect(all.filter(({ name }) => name === 'twin')).toHaveLength(1)
      expect((await client.sandboxes.get('twin')).id).toBe(twin.id)
      await twin.delete()
      const again = await home.create(['--name', 'twin'])
      expect(again.id).not.toBe(twin.id)
      await again.delete()
    })
  })

  describe('delete', () => {
    it('ends all processes, and removes everything', async () => {
      const { home, client, box } = getInstance()
      const going = await home.create(['--name', 'going'])
      const running = runWhole(getInstance(), { kind: 'exec', argv: ['sleep', '983'] }, { sandbox: going })
      const ended = running.then(
        ({ result }) => result.outcome,
        (error: { readonly code: string }) => error.code,
      )
      await going.exec(['sh', '-c', 'setsid sleep 982 >/dev/null 2>&1 & echo > file'])
      expect(existsSync(join(home.home, 'sandboxes', going.id))).toBe(true)
      const types: string[] = []
      for await (const { type } of client.sandboxes.events(going.id)) types.push(type)
      expect(types.slice(0, 3).sort()).toEqual(['connected', 'created', 'job_started'])
      await going.delete()
      expect(existsSync(join(home.home, 'sandboxes', going.id))).toBe(false)
      expect(await home.findLeftovers(going.id)).toEqual([])
      expect(await ended).not.toBe('exited')
      await expect(client.sandboxes.get(going.id)).rejects.toMatchObject({ code: 'not_found' })
      await expect(going.exec(['true'])).rejects.toMatchObject({ code: 'not_found' })
      await expect(going.delete()).rejects.toMatchObject({ code: 'not_found' })
      await expectRunsCommands(box)
    })
  })
}

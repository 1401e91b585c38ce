import { once } from 'node:events'
import { PassThrough, Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { SandboxId } from '../../lib/ids.ts'
import { revokeGrant } from '../../policy/grants.ts'
import { caller, exec, jobId, MANAGER_OPERATOR, type ManagerScene, managerScene } from './manager.fixture.ts'

async function revokeAll({ store }: ManagerScene, id: SandboxId): Promise<void> {
  for (const { id: grant, document, revokedAtMs } of await store.tables.grants.list(1000))
    if (revokedAtMs === null && document.includes(`sandbox/${id}`))
      await revokeGrant(store, grant, MANAGER_OPERATOR)
}

async function readUntilError(stream: Readable): Promise<unknown> {
  stream.resume()
  const [error] = await once(stream, 'error').catch((error) => [error])
  return error
}

describe('after its grants are revoked', () => {
  it('nobody can read, feed or control a job, but its operator can stop it', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const job = jobId()
    const { jobs } = scene.manager
    const spec = exec('sleep', '60')
    const { output } = await jobs.start(caller(), id, job, { spec })
    output.destroy()
    expect(await jobs.status(caller(), id, job)).toMatchObject({ state: 'running' })
    await revokeAll(scene, id)
    const attempts = [
      () => jobs.start(caller(), id, job, { spec }),
      () => jobs.output(caller(), id, job, 0),
      () => jobs.status(caller(), id, job),
      () => jobs.input(caller(), id, job, { offset: 0, end: true, body: Readable.from([Buffer.from('x')]) }),
      () => jobs.acknowledge(caller(), id, job, 0),
      () => jobs.control(caller(), id, job, { signal: 'SIGTERM' }),
    ]
    for (const attempt of attempts)
      await expect(attempt()).rejects.toMatchObject({
        code: 'denied',
        hint: expect.stringContaining('grant'),
      })
    expect(await scene.receipts({ kind: 'denial' })).toHaveLength(attempts.length)
    await jobs.cancel(caller(), id, job)
    const [end] = await scene.receipts({ operation: 'exec', phase: 'end' })
    expect(end).toMatchObject({ metadata: { outcome: 'cancelled' } })
  })

  it('open streams end with the denial', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { jobs, files } = scene.manager
    const job = jobId()
    const { output } = await jobs.start(caller(), id, job, {
      spec: { kind: 'exec', argv: ['cat'], stdin: true },
    })
    const typed = new PassThrough()
    const fed = jobs
      .input(caller(), id, job, { offset: 0, end: true, body: typed })
      .catch((error: unknown) => error)
    typed.write('hello\n')
    await once(output, 'data')
    const watch = await files.watch(caller(), id, '.', true, 0)
    const broken = Promise.all([output, watch].map(readUntilError))
    await revokeAll(scene, id)
    expect(await broken).toMatchObject([{ code: 'denied' }, { code: 'denied' }])
    expect(await fed).toMatchObject({ code: 'denied' })
    const denials = await scene.receipts({ kind: 'denial' })
    expect(denials.map(({ capability }) => capability).sort()).toEqual(['sandbox.exec', 'sandbox.read'])
    expect(scene.complaints).toEqual([])
  })
})

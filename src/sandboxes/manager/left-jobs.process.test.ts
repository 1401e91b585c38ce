/** Jobs that depend on a client. Only these are stopped when no client reads them or sends them input. */
import { once } from 'node:events'
import { PassThrough, type Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import type { JobId, SandboxId } from '../../lib/ids.ts'
import { TestClock } from '../../policy/policy.fixture.ts'
import type { JobRequest } from '../manager-types.ts'
import { caller, eventually, exec, jobId, type ManagerScene, managerScene } from './manager.fixture.ts'

const LEFT_MS = 10_000
const WAITS = { kind: 'exec', argv: ['cat'], stdin: true } as const

describe('a job that depends on its client', () => {
  it('is stopped when it has no reader or feeder', async () => {
    const clock = new TestClock()
    await using scene = managerScene(undefined, clock)
    const id = await scene.create()
    const { job, output } = await startJob(scene, id, { spec: exec('sleep', '600'), endsWhenLeftMs: LEFT_MS })
    await closeOutput(output)
    clock.advance(LEFT_MS)
    expect(await endOf(scene, job)).toMatchObject({ status: 'failed', metadata: { outcome: 'left' } })
    await expect(scene.manager.jobs.status(caller(), id, job)).rejects.toMatchObject({ code: 'not_found' })
  })

  it('continues while a client reads or feeds it, and a job without that option always continues', async () => {
    const clock = new TestClock()
    await using scene = managerScene(undefined, clock)
    const id = await scene.create()
    const driven = { endsWhenLeftMs: LEFT_MS }
    const read = await startJob(scene, id, { spec: exec('sleep', '600'), ...driven })
    const fed = await startJob(scene, id, { spec: WAITS, ...driven })
    const other = await startJob(scene, id, { spec: exec('sleep', '600') })
    const left = await startJob(scene, id, { spec: exec('sleep', '600'), ...driven })
    const body = new PassThrough()
    const feeding = scene.manager.jobs.input(caller(), id, fed.job, { offset: 0, end: true, body })
    body.write('more')
    for (const { output } of [fed, other, left]) await closeOutput(output)
    clock.advance(LEFT_MS)
    // This job was begun last, so the others were checked before it.
    await endOf(scene, left.job)
    const going = (await scene.manager.jobs.list(caller(), id)).filter(({ state }) => state === 'running')
    expect(going.map((one) => one.id).sort()).toEqual([read.job, fed.job, other.job].sort())
    body.end()
    await feeding
  })

  it('stays such a job in the process that takes over the sandbox', async () => {
    const clock = new TestClock()
    await using scene = managerScene(undefined, clock)
    const id = await scene.create()
    const { job } = await startJob(scene, id, { spec: exec('sleep', '600'), endsWhenLeftMs: LEFT_MS })
    await scene.restart()
    clock.advance(LEFT_MS)
    expect(await endOf(scene, job)).toMatchObject({ metadata: { outcome: 'left' } })
  })
})

async function startJob({ manager }: ManagerScene, id: SandboxId, request: JobRequest) {
  const job = jobId()
  const { output } = await manager.jobs.start(caller(), id, job, request)
  output.resume()
  return { job, output }
}

async function closeOutput(output: Readable): Promise<void> {
  const closed = once(output, 'close')
  output.destroy()
  await closed
}

function endOf(scene: ManagerScene, job: JobId) {
  return eventually(async () =>
    (await scene.receipts({ operation: 'exec', phase: 'end' })).find(({ links }) => links.job_id === job),
  )
}

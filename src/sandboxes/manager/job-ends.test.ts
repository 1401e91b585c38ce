import type { ServerHttp2Stream } from 'node:http2'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { encodeFrame, encodeJsonFrame, FRAME, FRAME_HEADER_BYTES } from '../../lib/frames.ts'
import type { SandboxId } from '../../lib/ids.ts'
import { TestClock } from '../../policy/policy.fixture.ts'
import { LIMITS } from '../../sidecar/protocol.ts'
import { RESULT, sendJson } from '../boundary/hostile-sidecar.fixture.ts'
import { beginOperation } from '../lifecycle/tokens.ts'
import {
  caller,
  eventually,
  exec,
  jobId,
  MANAGER_OPERATOR,
  type ManagerScene,
  managerScene,
} from './manager.fixture.ts'
import { createScriptedBackend, nothingThere } from './scripted-instance.fixture.ts'

const BUSY = { code: 'busy', message: 'no more of them' }

describe('a request that was refused', () => {
  it('does not start the job for a caller that waited meanwhile', async () => {
    const backend = createScriptedBackend()
    await using scene = managerScene(backend)
    const id = await scene.create()
    const job = jobId()
    backend.answer = (stream, what, headers) => {
      if (!what.startsWith('PUT /jobs/')) nothingThere(stream, what, headers)
      else if (putsOf(backend.asked) === 1) sendJson(stream, 503, BUSY)
      else runsAtOnce(stream)
    }
    const start = () => scene.manager.jobs.start(caller(), id, job, { spec: exec('true') })
    const both = await Promise.allSettled([start(), start()])
    expect(both.map((one) => one.status === 'rejected' && one.reason.code)).toEqual([
      'limit_reached',
      'not_found',
    ])
    expect(putsOf(backend.asked)).toBe(1)
    expect(await scene.receipts({ operation: 'exec', phase: 'end' })).toMatchObject([
      { status: 'failed', metadata: { outcome: 'not_started' } },
    ])
  })

  it('does not write the upload for a caller that waited meanwhile', async () => {
    const backend = createScriptedBackend()
    await using scene = managerScene(backend)
    const id = await scene.create()
    const upload = { upload: jobId(), path: 'file', bytes: 1, mode: 0o644 }
    backend.answer = (stream, what, headers) => {
      if (what !== 'PUT /files/content') nothingThere(stream, what, headers)
      else if (putsOf(backend.asked) === 1) sendJson(stream, 503, BUSY)
      else sendJson(stream, 200, { offset: 1, committed: true })
    }
    const write = () => scene.manager.files.write(caller(), id, upload, 0, Readable.from([Buffer.from('x')]))
    const both = await Promise.allSettled([write(), write()])
    expect(both.map((one) => one.status === 'rejected' && one.reason.code)).toEqual([
      'limit_reached',
      'conflict',
    ])
    expect(putsOf(backend.asked)).toBe(1)
    expect(await scene.receipts({ operation: 'write', phase: 'end' })).toMatchObject([{ status: 'failed' }])
  })
})

describe('a begun job that the sidecar does not have', () => {
  const spec = exec('true')
  /** Begun by a process that lost the sandbox before it sent the job. */
  const beginJob = async (scene: ManagerScene, id: SandboxId) => {
    const job = jobId()
    const answer = await scene.store.write(beginOperation, {
      id,
      operation: 'exec',
      operator: MANAGER_OPERATOR,
      epoch: 'epoch_before',
      owner: scene.store.log.owner,
      job: { id: job, spec: { kind: 'exec', argv: ['true'] }, argv: ['true'] },
    })
    expect(answer.effect).toBe('allowed')
    await scene.restart()
    return job
  }
  const ends = (scene: ManagerScene) => scene.receipts({ operation: 'exec', phase: 'end' })

  it('is started, and the request says how long ago it was begun', async () => {
    const [backend, clock] = [createScriptedBackend(), new TestClock()]
    await using scene = managerScene(backend, clock)
    const id = await scene.create()
    const ages: (string | null)[] = []
    backend.answer = (stream, what, headers) => {
      if (!what.startsWith('PUT /jobs/')) return nothingThere(stream, what, headers)
      ages.push(new URL(headers[':path']!, 'http://inside').searchParams.get('age'))
      runsAtOnce(stream)
    }
    const job = await beginJob(scene, id)
    clock.advance(LIMITS.endedJobKeepMs / 3)
    const { output } = await scene.manager.jobs.start(caller(), id, job, { spec })
    await output.resume().toArray()
    expect(ages).toEqual([String(LIMITS.endedJobKeepMs / 3)])
    expect(await ends(scene)).toMatchObject([{ status: 'passed' }])
  })

  it('is lost when that is long ago', async () => {
    const [backend, clock] = [createScriptedBackend(), new TestClock()]
    await using scene = managerScene(backend, clock)
    const id = await scene.create()
    const job = await beginJob(scene, id)
    clock.advance(LIMITS.endedJobKeepMs / 3 + 1)
    await expectLost(scene, id, job)
    expect(putsOf(backend.asked)).toBe(0)
  })

  it('is lost when another sidecar answers', async () => {
    const [backend, clock] = [createScriptedBackend(), new TestClock()]
    await using scene = managerScene(backend, clock)
    const id = await scene.create()
    backend.instance = 'second'
    const job = await beginJob(scene, id)
    await expectLost(scene, id, job)
    expect(putsOf(backend.asked)).toBe(0)
  })

  it('is lost when the sandbox says that it may have run', async () => {
    const [backend, clock] = [createScriptedBackend(), new TestClock()]
    await using scene = managerScene(backend, clock)
    const id = await scene.create()
    backend.answer = (stream, what, headers) => {
      if (what.startsWith('PUT /jobs/')) sendJson(stream, 410, { code: 'gone', message: 'over' })
      else nothingThere(stream, what, headers)
    }
    await expectLost(scene, id, await beginJob(scene, id))
  })

  async function expectLost(scene: ManagerScene, id: SandboxId, job: ReturnType<typeof jobId>) {
    await expect(scene.manager.jobs.start(caller(), id, job, { spec })).rejects.toMatchObject({
      code: 'boundary_failed',
      message: expect.stringContaining('is lost'),
    })
    expect(await ends(scene)).toMatchObject([{ status: 'indeterminate', metadata: { outcome: 'lost' } }])
  }
})

describe('the bytes of a job', () => {
  it('are counted as they pass, and the job ends only when they stop', async () => {
    const [backend, clock] = [createScriptedBackend(), new TestClock()]
    await using scene = managerScene(backend, clock)
    const id = await scene.create()
    const job = jobId()
    let send = (_frame: Buffer) => {}
    backend.answer = (stream, what, headers) => {
      if (what === 'GET /jobs') {
        sendJson(stream, 200, { jobs: [endedJobStatus(job)] })
      } else if (what.startsWith('PUT /jobs/')) {
        stream.respond({ ':status': 201 })
        send = (frame) => void stream.write(frame)
      } else nothingThere(stream, what, headers)
    }
    const { output } = await scene.manager.jobs.start(caller(), id, job, { spec: exec('true') })
    let bytes = 0
    output.on('data', (chunk: Buffer) => {
      bytes += chunk.length
    })
    const ends = () => scene.receipts({ operation: 'exec', phase: 'end' })
    const pass = async (part: number) => {
      send(encodeFrame(FRAME.stdout, Buffer.alloc(1000)))
      await eventually(async () => bytes === part * (FRAME_HEADER_BYTES + 1000) || undefined)
    }
    await pass(1)
    await pollTwice()
    clock.advance(4_000)
    await pass(2)
    clock.advance(4_000)
    await pollTwice()
    expect(await ends()).toEqual([])
    clock.advance(1_000)
    const [end] = await eventually(async () => ((await ends()).length > 0 ? ends() : undefined))
    expect(end?.measures).toContainEqual({ name: 'bytes_in', value: bytes, source: 'observed' })
    // The sandbox reports this figure, so it is only claimed.
    expect(end?.measures).toContainEqual({ name: 'stdout_bytes', value: 77, source: 'claimed' })
    const seen = end?.measures?.filter(({ source }) => source === 'observed').map(({ name }) => name)
    expect(seen).toEqual(['duration_ms', 'bytes_in', 'bytes_out'])
    output.destroy()

    /** Waits for two polls: the answer to the first was processed before the second was sent. */
    async function pollTwice(): Promise<void> {
      const looks = () => backend.asked.filter((what) => what === 'GET /jobs').length
      const before = looks()
      await eventually(async () => looks() >= before + 2 || undefined)
    }
  })
})

function putsOf(requests: readonly string[]): number {
  return requests.filter((what) => what.startsWith('PUT ')).length
}

describe('a job that waits for the disk of its sandbox', () => {
  it('causes one event', async () => {
    const backend = createScriptedBackend()
    await using scene = managerScene(backend)
    const id = await scene.create()
    const job = jobId()
    const { result: _, ...rest } = endedJobStatus(job)
    backend.answer = (stream, what, headers) => {
      if (what === 'GET /jobs')
        sendJson(stream, 200, { jobs: [{ ...rest, state: 'running', waiting: 'disk' }] })
      else if (what.startsWith('PUT /jobs/')) stream.respond({ ':status': 201 })
      else nothingThere(stream, what, headers)
    }
    const { output } = await scene.manager.jobs.start(caller(), id, job, { spec: exec('true') })
    const looks = () => backend.asked.filter((what) => what === 'GET /jobs').length
    await eventually(async () => looks() >= 3 || undefined)
    const reported: unknown[] = []
    for await (const event of scene.manager.events(id, false, new AbortController().signal))
      reported.push(event)
    const message = 'waiting: the sandbox’s disk is full'
    expect(reported.filter((event) => (event as { type: string }).type === 'held_up')).toEqual([
      { atMs: expect.any(Number), type: 'held_up', job, message },
    ])
    output.destroy()
  })
})

function endedJobStatus(id: string) {
  const place = {
    pid: null,
    startedAtMs: 1,
    first: 0,
    position: 0,
    inputOffset: 0,
    inputEnded: true,
    readers: 0,
  }
  return { id, kind: 'exec', state: 'ended', ...place, result: { ...RESULT, stdoutBytes: 77 } }
}

function runsAtOnce(stream: ServerHttp2Stream): void {
  stream.respond({ ':status': 201 })
  stream.end(encodeJsonFrame(FRAME.exit, RESULT))
  stream.resume()
}

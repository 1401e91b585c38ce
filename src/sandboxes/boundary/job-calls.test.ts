import type { ServerHttp2Stream } from 'node:http2'
import { PassThrough, Readable } from 'node:stream'
import { setImmediate as turn } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { encodeFrame, encodeJsonFrame, FRAME } from '../../lib/frames.ts'
import { NEVER_ABORTED } from '../../lib/never-aborted.fixture.ts'
import type { JobSpec, JobStatus } from '../../sidecar/protocol.ts'
import { expectCraikError, hostileSidecar, JOB, RESULT, sendJson } from './hostile-sidecar.fixture.ts'

const SPEC: JobSpec = { kind: 'exec', argv: ['true'] }
const hi = encodeFrame(FRAME.stdout, Buffer.from('hi'))
const exit = encodeJsonFrame(FRAME.exit, RESULT)

const STATUS: JobStatus = {
  id: JOB,
  kind: 'exec',
  state: 'running',
  pid: 7,
  startedAtMs: 1,
  first: 0,
  position: 0,
  inputOffset: 0,
  inputEnded: false,
  readers: 0,
}

/** Answers every output request with these bytes, then calls `after` with the stream. */
async function output(bytes: Buffer, after: (stream: ServerHttp2Stream) => void, timeouts = {}) {
  const hostile = await hostileSidecar((stream, what) => {
    if (what === 'POST /accept') return
    stream.resume()
    stream.respond({ ':status': 201 })
    stream.write(bytes)
    after(stream)
  }, timeouts)
  return hostile
}

const ends = (stream: ServerHttp2Stream) => stream.end()

describe('the output of a job', () => {
  it('is passed on unchanged and ends with the exit frame', async () => {
    await using hostile = await output(Buffer.concat([hi, exit]), ends)
    const started = await hostile.boundary.jobs.start(JOB, SPEC, NEVER_ABORTED)
    expect(started.created).toBe(true)
    expect(Buffer.concat(await started.output.toArray())).toEqual(Buffer.concat([hi, exit]))
    expect(started.output.result).toEqual(RESULT)
    expect(started.output.position).toBe(hi.length + exit.length)
  })

  it('fails when it ends without an exit frame, and reports its position', async () => {
    await using hostile = await output(hi, ends)
    const { output: stream } = await hostile.boundary.jobs.start(JOB, SPEC, NEVER_ABORTED)
    const failure = await expectCraikError(stream.toArray())
    expect(failure).toMatchObject({
      code: 'boundary_failed',
      message: expect.stringMatching(/before it reported the result/),
    })
    expect(stream.position).toBe(hi.length)
  })

  it('fails when the connection is lost', async () => {
    await using hostile = await output(hi, () => setImmediate(() => hostile.inside.destroy()))
    const stream = await hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED)
    expect((await expectCraikError(stream.toArray())).message).toMatch(/was lost/)
  })

  it('keeps its position when the stream is reset', async () => {
    await using hostile = await output(Buffer.concat([hi, exit]), (stream) =>
      setImmediate(() => stream.close(2)),
    )
    const stream = await hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED)
    await stream.toArray().catch(() => {})
    expect(stream.position).toBe(hi.length + exit.length)
  })

  it.each([
    ['garbage', Buffer.from('garbage garbage')],
    ['a frame of 4 GiB', Buffer.from([1, 255, 255, 255, 255])],
    ['more after the exit frame', Buffer.concat([exit, hi])],
    ['an exit frame with a negative number', encodeJsonFrame(FRAME.exit, { ...RESULT, durationMs: -1 })],
    ['an exit frame with a huge number', encodeFrame(FRAME.exit, Buffer.from('{"durationMs":1e999}'))],
  ])("fails on %s, and closes the sidecar's stream", async (_, bytes) => {
    const stopped = Promise.withResolvers<void>()
    await using hostile = await output(bytes, (stream) => stream.on('close', () => stopped.resolve()))
    const stream = await hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED)
    expect((await expectCraikError(stream.toArray())).code).toBe('boundary_failed')
    await stopped.promise
  })

  it('fails when the sidecar sends nothing, but not while the reader itself does not read', async () => {
    await using hostile = await output(Buffer.alloc(0), () => {}, { silenceMs: 50 })
    const stream = await hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED)
    expect((await expectCraikError(stream.toArray())).message).toMatch(/sent nothing for 50 ms/)

    const large = encodeFrame(FRAME.stdout, Buffer.alloc(200 * 1024))
    await using slow = await output(Buffer.concat([large, large, exit]), ends, { silenceMs: 20 })
    const paused = await slow.boundary.jobs.output(JOB, 0, NEVER_ABORTED)
    await new Promise((resolve) => setTimeout(resolve, 100))
    expect(paused.errored).toBe(null)
    expect((await paused.toArray()).length).toBeGreaterThan(0)
  })

  it("ends when the caller aborts, and cancels the sidecar's stream", async () => {
    const stopped = Promise.withResolvers<number>()
    await using hostile = await output(hi, (stream) =>
      stream.on('close', () => stopped.resolve(stream.rstCode)),
    )
    const controller = new AbortController()
    const stream = await hostile.boundary.jobs.output(JOB, 0, controller.signal)
    const read = expectCraikError(stream.toArray())
    controller.abort()
    expect((await read).code).toBe('interrupted')
    expect(await stopped.promise).toBe(8)
  })

  it('does not end the process when it fails without a reader', async () => {
    await using hostile = await output(hi, () => setImmediate(() => hostile.inside.destroy()))
    const stream = await hostile.boundary.jobs.output(JOB, 0, NEVER_ABORTED)
    await hostile.boundary.closed
    await turn()
    expect(stream.errored).toMatchObject({ code: 'boundary_failed' })
  })

  it('has a deadline for the start of the response', async () => {
    await using hostile = await hostileSidecar(() => {}, { answerMs: 50 })
    expect((await expectCraikError(hostile.boundary.jobs.start(JOB, SPEC, NEVER_ABORTED))).message).toMatch(
      /within 50 ms/,
    )
  })
})

describe('the state of a job', () => {
  it('is undefined when the sidecar does not have the job', async () => {
    await using hostile = await hostileSidecar((stream) =>
      sendJson(stream, 404, { code: 'not_found', message: 'no such job' }),
    )
    expect(await hostile.boundary.jobs.status(JOB, NEVER_ABORTED)).toBe(undefined)
    await hostile.boundary.jobs.forget(JOB, NEVER_ABORTED)
  })

  it.each([
    ['of another job', { ...STATUS, id: 'job_2' }],
    ['that ended without a result', { ...STATUS, state: 'ended' }],
    ['with a position that cannot be', { ...STATUS, position: Number.MAX_SAFE_INTEGER + 1 }],
    ['with a result that cannot be', { ...STATUS, state: 'ended', result: { ...RESULT, exitCode: 999 } }],
    ['that is no JSON', '{"id":'],
  ])('is refused when it is one %s', async (_, status) => {
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 200, status))
    expect((await expectCraikError(hostile.boundary.jobs.status(JOB, NEVER_ABORTED))).code).toBe(
      'boundary_failed',
    )
  })

  it('is refused when the response never ends', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') return
      stream.respond({ ':status': 200 })
      const more = () => {
        while (!stream.destroyed && stream.write('{"jobs":[],'.repeat(1000)));
      }
      stream.on('drain', more)
      more()
    })
    expect((await expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))).message).toMatch(
      /more than 1048576 bytes/,
    )
  })

  it('is refused when the list has more jobs than the limit', async () => {
    const jobs = Array.from({ length: 513 }, (_, i) => ({ ...STATUS, id: `job_${i}` }))
    await using hostile = await hostileSidecar((stream) => sendJson(stream, 200, { jobs }))
    expect((await expectCraikError(hostile.boundary.jobs.list(NEVER_ABORTED))).message).toMatch(
      /in which jobs is invalid/,
    )
  })
})

describe('the input of a job', () => {
  it('arrives whole, and returns the offset that arrived', async () => {
    let arrived = ''
    await using hostile = await hostileSidecar((stream, what, headers) => {
      if (what === 'POST /accept') return
      expect(headers[':path']).toBe('/jobs/job_1/input?offset=3&end=1')
      stream.on('data', (chunk) => {
        arrived += chunk
      })
      stream.on('end', () => sendJson(stream, 200, { offset: 3 + arrived.length }))
    })
    const body = Readable.from([Buffer.from('some '), Buffer.from('input')])
    expect(await hostile.boundary.jobs.input(JOB, 3, body, true, NEVER_ABORTED)).toEqual({ offset: 13 })
    expect(arrived).toBe('some input')
  })

  it('is no longer read after the sidecar refuses it halfway', async () => {
    await using hostile = await hostileSidecar((stream, what) => {
      if (what !== 'POST /accept') sendJson(stream, 409, { code: 'conflict', message: 'it has ended' })
    })
    const endless = new Readable({
      read() {
        this.push(Buffer.alloc(65_536))
      },
    })
    const failure = await expectCraikError(hostile.boundary.jobs.input(JOB, 0, endless, false, NEVER_ABORTED))
    expect(failure).toMatchObject({
      code: 'conflict',
      message: expect.stringMatching(/reported “it has ended”/),
    })
    expect(endless.destroyed).toBe(true)
  })

  it('ends when the sidecar refuses it although its sender is silent, and reports how much arrived', async () => {
    const refuse = Promise.withResolvers<() => void>()
    await using hostile = await hostileSidecar((stream, what, headers) => {
      if (what === 'POST /accept') return
      expect(headers[':path']).toBe('/jobs/job_1/input?offset=3&end=1&turn=mine&take=0')
      refuse.resolve(() => sendJson(stream, 412, { code: 'changed', message: 'taken', offset: 3 }))
    })
    // This body sends nothing and does not end.
    const silent = new PassThrough()
    const turn = { id: 'mine', take: false }
    const failed = expectCraikError(hostile.boundary.jobs.input(JOB, 3, silent, true, NEVER_ABORTED, turn))
    ;(await refuse.promise)()
    expect(await failed).toMatchObject({ code: 'conflict', details: { inside: 'changed', offset: 3 } })
    expect(silent.destroyed).toBe(true)
  })

  it.each([-1, 1.5, 2 ** 60, '3'])(
    'is refused without a reason when the reported offset is %j',
    async (offset) => {
      await using hostile = await hostileSidecar((stream, what) => {
        if (what !== 'POST /accept') sendJson(stream, 412, { code: 'changed', message: 'taken', offset })
      })
      const failed = expectCraikError(
        hostile.boundary.jobs.input(JOB, 0, new PassThrough(), true, NEVER_ABORTED),
      )
      expect(await failed).toMatchObject({ code: 'boundary_failed' })
    },
  )

  it('waits without a deadline while the job reads nothing, until the caller aborts', async () => {
    await using hostile = await hostileSidecar(() => {}, { answerMs: 30, silenceMs: 30 })
    const controller = new AbortController()
    const body = Readable.from([Buffer.alloc(4 * 1024 * 1024)])
    const sent = expectCraikError(hostile.boundary.jobs.input(JOB, 0, body, false, controller.signal))
    await new Promise((resolve) => setTimeout(resolve, 100))
    controller.abort()
    expect((await sent).code).toBe('interrupted')
    expect(body.destroyed).toBe(true)
  })

  it('has a deadline for the response once the whole body is sent', async () => {
    await using hostile = await hostileSidecar((stream) => stream.resume(), { answerMs: 30 })
    const sent = hostile.boundary.jobs.input(JOB, 0, Readable.from([Buffer.from('x')]), true, NEVER_ABORTED)
    expect((await expectCraikError(sent)).message).toMatch(/did not answer within 30 ms/)
  })

  it('resets the stream when its sender breaks off, instead of ending it', async () => {
    const reset = Promise.withResolvers<boolean>()
    await using hostile = await hostileSidecar((stream, what) => {
      if (what === 'POST /accept') return
      stream.resume()
      stream.on('close', () => reset.resolve(stream.aborted))
    })
    const body = new PassThrough()
    body.write('half')
    const sent = expectCraikError(hostile.boundary.jobs.input(JOB, 0, body, true, NEVER_ABORTED))
    await turn()
    body.destroy(new Error('the client is gone'))
    expect((await sent).code).toBe('interrupted')
    expect(await reset.promise).toBe(true)
  })
})

describe('boundary counts', () => {
  it('count a job once however often it is requested, and every other operation each time', async () => {
    await using hostile = await output(exit, ends)
    for (let i = 0; i < 3; i++)
      await (await hostile.boundary.jobs.start(JOB, SPEC, NEVER_ABORTED)).output.toArray()
    const other = 'job_2' as typeof JOB
    await (await hostile.boundary.jobs.start(other, SPEC, NEVER_ABORTED)).output.toArray()
    const before = hostile.boundary.counts()
    expect(before).toMatchObject({ jobs: 2, reads: 0, writes: 0, connections: 0 })
    await hostile.boundary.close()
    await expectCraikError(hostile.boundary.files.stat('/x', NEVER_ABORTED))
    const after = hostile.boundary.counts()
    expect(after.looks).toBe(1)
    expect(after.bytesIn).toBeGreaterThanOrEqual(before.bytesIn)
    expect(before.bytesIn).toBeGreaterThan(4 * exit.length)
    expect(before.bytesOut).toBeGreaterThan(4 * JSON.stringify(SPEC).length)
  })
})

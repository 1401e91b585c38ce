import { existsSync, readFileSync } from 'node:fs'
import { Socket } from 'node:net'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { describe, expect, it } from 'vitest'
import { FRAME, FRAME_HEADER_BYTES, FrameReader, isInLog } from '../../lib/frames.ts'
import { caller, eventually, exec, jobId, managerScene, readOutput } from './manager.fixture.ts'

describe('a job', () => {
  it('runs a command, and its receipts are complete when its output ends', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const job = jobId()
    const started = await scene.manager.jobs.start(caller(), id, job, {
      spec: exec('sh', '-c', 'echo out; echo err >&2; exit 3'),
    })
    const ran = await readOutput(started.output)
    expect(ran).toMatchObject({ stdout: 'out\n', stderr: 'err\n', result: { exitCode: 3 } })
    const [end] = await scene.receipts({ begin_id: started.receiptId, phase: 'end' })
    expect(end).toMatchObject({ status: 'failed', links: { job_id: job } })
    expect(end?.measures).toContainEqual({ name: 'exit_code', value: 3, source: 'claimed' })
    expect(end?.measures?.find(({ name }) => name === 'bytes_in')).toMatchObject({ source: 'observed' })
    expect(scene.complaints).toEqual([])
  })

  it('leaves no record of its arguments', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { output } = await scene.manager.jobs.start(caller(), id, jobId(), {
      spec: exec('echo', 'this-very-argument'),
    })
    expect((await readOutput(output)).stdout).toBe('this-very-argument\n')
    expect(JSON.stringify(await scene.receipts())).not.toContain('this-very-argument')
  })

  it('starts once, however many requests use its id and however late they come', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const job = jobId()
    const spec = exec('sh', '-c', 'echo once >> ran; cat ran')
    const started = await Promise.all(
      [0, 1, 2, 3].map(() => scene.manager.jobs.start(caller(), id, job, { spec })),
    )
    const outputs = await Promise.all(started.map(({ output }) => readOutput(output)))
    expect(outputs.map(({ stdout }) => stdout)).toEqual(Array(4).fill('once\n'))
    expect(started.filter(({ created }) => created)).toHaveLength(1)
    const later = await scene.manager.jobs.start(caller(), id, job, { spec })
    expect(later.created).toBe(false)
    expect((await readOutput(later.output)).stdout).toBe('once\n')
    expect(new Set(started.map(({ receiptId }) => receiptId)).size).toBe(1)
    expect(await scene.receipts({ operation: 'exec', phase: 'begin' })).toHaveLength(1)
    expect(await scene.receipts({ operation: 'exec', phase: 'end' })).toHaveLength(1)
  })

  it('refuses another request under its id', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const job = jobId()
    const { output } = await scene.manager.jobs.start(caller(), id, job, { spec: exec('true') })
    await readOutput(output)
    await expect(scene.manager.jobs.start(caller(), id, job, { spec: exec('false') })).rejects.toMatchObject({
      code: 'conflict',
    })
  })

  it('has its end recorded when no client reads it', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const started = await scene.manager.jobs.start(caller(), id, jobId(), {
      spec: exec('sh', '-c', 'sleep 0.3; exit 7'),
    })
    started.output.destroy()
    const end = await eventually(
      async () => (await scene.receipts({ begin_id: started.receiptId, phase: 'end' }))[0],
    )
    expect(end).toMatchObject({ status: 'failed', metadata: { outcome: 'exited' } })
    expect(end.measures).toContainEqual({ name: 'exit_code', value: 7, source: 'claimed' })
    expect((await scene.manager.get(id)).runningJobs).toBe(0)
  })

  it('receives input, and can be read again after a reader stopped', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const job = jobId()
    const { output } = await scene.manager.jobs.start(caller(), id, job, {
      spec: { kind: 'exec', argv: ['cat'], stdin: true },
    })
    output.destroy()
    const feed = (text: string, offset: number, end: boolean) =>
      scene.manager.jobs.input(caller(), id, job, { offset, end, body: Readable.from([Buffer.from(text)]) })
    expect(await feed('hello ', 0, false)).toEqual({ offset: 6 })
    expect(await feed('hello world', 0, true)).toEqual({ offset: 11 })
    const again = await scene.manager.jobs.output(caller(), id, job, 0)
    expect((await readOutput(again)).stdout).toBe('hello world')
    const [end] = await scene.receipts({ operation: 'exec', phase: 'end' })
    expect(end?.measures).toContainEqual({ name: 'bytes_out', value: 17, source: 'observed' })
  })

  it('can be used only by the operator who started it', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const job = jobId()
    const { jobs } = scene.manager
    const { output } = await jobs.start(caller(), id, job, { spec: exec('sleep', '30') })
    const other = caller('local-user:mallory')
    const body = Readable.from([Buffer.from('x')])
    for (const attempt of [
      () => jobs.output(other, id, job, 0),
      () => jobs.status(other, id, job),
      () => jobs.input(other, id, job, { offset: 0, end: true, body }),
      () => jobs.acknowledge(other, id, job, 0),
      () => jobs.control(other, id, job, { signal: 'SIGKILL' }),
      () => jobs.cancel(other, id, job),
      () => jobs.start(other, id, job, { spec: exec('sleep', '30') }),
      () => jobs.list(other, id),
    ]) {
      const before = (await scene.receipts({ kind: 'denial' })).length
      await expect(attempt()).rejects.toMatchObject({ code: 'denied' })
      expect((await scene.receipts({ kind: 'denial' })).length).toBe(before + 1)
    }
    expect((await jobs.list(caller(), id)).map((status) => status.id)).toEqual([job])
    expect(await jobs.status(caller(), id, job)).toMatchObject({ state: 'running' })
    await jobs.cancel(caller(), id, job)
    output.destroy()
    const [end] = await scene.receipts({ operation: 'exec', phase: 'end' })
    expect(end).toMatchObject({ status: 'failed', metadata: { outcome: 'cancelled' } })
  })

  it('that was canceled does not run again when its end could not be recorded', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const job = jobId()
    const spec = exec('sh', '-c', 'echo once >> ran; sleep 60')
    const { output } = await scene.manager.jobs.start(caller(), id, job, { spec })
    const ran = join(scene.folder, 'sandboxes', id, 'data', 'home', 'project', 'ran')
    await eventually(async () => existsSync(ran) || undefined)
    output.destroy()
    // This is like a crash between the two steps: the sandbox has forgotten the job, but its end is not recorded.
    scene.store.database.exec(
      `CREATE TRIGGER full BEFORE UPDATE OF state ON sandbox_jobs BEGIN SELECT RAISE(ABORT, 'full'); END`,
    )
    await scene.manager.jobs.cancel(caller(), id, job)
    await scene.manager.close()
    scene.store.database.exec('DROP TRIGGER full')
    await scene.restart()
    await expect(scene.manager.jobs.start(caller(), id, job, { spec })).rejects.toMatchObject({
      message: expect.stringContaining('is lost'),
    })
    expect(readFileSync(ran, 'utf8')).toBe('once\n')
    expect(await scene.receipts({ operation: 'exec', phase: 'end' })).toMatchObject([
      { status: 'indeterminate', metadata: { outcome: 'lost' } },
    ])
  })

  it('that no client began is not requested from the sandbox', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    await expect(scene.manager.jobs.output(caller(), id, jobId(), 0)).rejects.toMatchObject({
      code: 'not_found',
    })
  })

  it('that cannot be started reports that, and its receipt ends', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const { output } = await scene.manager.jobs.start(caller(), id, jobId(), {
      spec: exec('no-such-program-anywhere'),
    })
    expect((await readOutput(output)).result).toMatchObject({ outcome: 'not_started' })
    const [end] = await scene.receipts({ operation: 'exec', phase: 'end' })
    expect(end).toMatchObject({ status: 'failed', metadata: { outcome: 'not_started' } })
  })

  it('continues under a new manager: its output is complete, and its end is the real one', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const [long, short] = [jobId(), jobId()]
    const spec = exec('sh', '-c', 'echo before; until [ -e go ]; do sleep 0.05; done; echo after; exit 5')
    const first = await scene.manager.jobs.start(caller(), id, long, { spec })
    const second = await scene.manager.jobs.start(caller(), id, short, {
      spec: exec('sh', '-c', 'sleep 0.2; echo short'),
    })
    const broken = readOutput(first.output).catch(() => 'broken')
    second.output.destroy()
    await scene.restart()
    expect(await broken).toBe('broken')
    const adopted = await eventually(
      async () => (await scene.receipts({ begin_id: second.receiptId, phase: 'end' }))[0],
    )
    expect(adopted).toMatchObject({ status: 'passed' })
    const again = await scene.manager.jobs.start(caller(), id, long, { spec })
    expect(again).toMatchObject({ created: false, receiptId: first.receiptId })
    const touch = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('touch', 'go') })
    await readOutput(touch.output)
    expect(await readOutput(again.output)).toMatchObject({
      stdout: 'before\nafter\n',
      result: { exitCode: 5 },
    })
    expect((await scene.receipts({ begin_id: first.receiptId, phase: 'end' }))[0]).toMatchObject({
      status: 'failed',
    })
    expect(scene.complaints).toEqual([])
  })

  it('continues after a lost connection where the reader was, without a lost or duplicated byte', async () => {
    await using scene = managerScene()
    const before = new Set(openSockets())
    const id = await scene.create()
    const job = jobId()
    const spec = exec('sh', '-c', 'i=0; while [ $i -lt 40 ]; do echo $i; i=$((i+1)); sleep 0.01; done')
    const started = await scene.manager.jobs.start(caller(), id, job, { spec })
    let position = 0
    let text = ''
    const reader = new FrameReader()
    const take = (chunk: Buffer) => {
      for (const { type, payload } of reader.push(chunk)) {
        if (isInLog(type)) position += FRAME_HEADER_BYTES + payload.length
        if (type === FRAME.stdout) text += payload
      }
    }
    started.output.on('data', take)
    const broken = new Promise<Error>((resolve) => started.output.once('error', resolve))
    await eventually(async () => (text.includes('5\n') ? true : undefined))
    for (const socket of openSockets()) if (!before.has(socket)) socket.destroy()
    expect(await broken).toMatchObject({ code: 'boundary_failed' })
    const rest = await scene.manager.jobs.output(caller(), id, job, position)
    text += (await readOutput(rest)).stdout
    expect(text).toBe(Array.from({ length: 40 }, (_, i) => `${i}\n`).join(''))
    expect(await scene.receipts({ begin_id: started.receiptId, phase: 'end' })).toMatchObject([
      { status: 'passed' },
    ])
    expect(scene.complaints).toEqual([])
  })

  it('is lost with its sandbox, and its receipt says so', async () => {
    await using scene = managerScene()
    const id = await scene.create()
    const started = await scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('sleep', '60') })
    const reading = readOutput(started.output)
    process.kill(scene.backend.pids.get(id)!, 'SIGKILL')
    await expect(reading).rejects.toMatchObject({ code: 'boundary_failed' })
    await eventually(async () => (await scene.manager.get(id)).state === 'lost' || undefined)
    const [end] = await scene.receipts({ begin_id: started.receiptId, phase: 'end' })
    expect(end).toMatchObject({ status: 'indeterminate', metadata: { outcome: 'lost' } })
    await expect(
      scene.manager.jobs.start(caller(), id, jobId(), { spec: exec('true') }),
    ).rejects.toMatchObject({ code: 'sandbox_stopped' })
    expect(scene.manager.busy).toBe(false)
    await scene.manager.delete(caller(), id)
    expect(existsSync(join(scene.folder, 'sandboxes', id))).toBe(false)
  })
})

/**
 * Returns the sockets of this process, including the connection of a sidecar. A test in another process could not cut
 * that one.
 */
function openSockets(): Socket[] {
  const { _getActiveHandles } = process as unknown as { _getActiveHandles(): unknown[] }
  return _getActiveHandles.call(process).filter((handle) => handle instanceof Socket)
}

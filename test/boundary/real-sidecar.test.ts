import { createHash, randomBytes } from 'node:crypto'
import { once } from 'node:events'
import { existsSync, mkdirSync, readFileSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import { join } from 'node:path'
import { PassThrough, Readable } from 'node:stream'
import { text } from 'node:stream/consumers'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { FRAME, FrameReader, isInLog } from '../../src/lib/frames.ts'
import type { Boundary } from '../../src/sandboxes/boundary/boundary.ts'
import { collect, jobId, NEVER, run, type SidecarProcess, startSidecar } from './sidecar-process.ts'

let sidecar: SidecarProcess
let boundary: Boundary

beforeAll(async () => {
  sidecar = await startSidecar()
  boundary = await sidecar.boundary()
})
afterAll(async () => await sidecar?.[Symbol.asyncDispose]())

describe('the boundary to a real sidecar', () => {
  it('runs a command, with both output streams and its exit code', async () => {
    const argv = ['sh', '-c', 'echo out; echo err >&2; exit 3']
    const { stdout, stderr, output } = await run(boundary, { kind: 'exec', argv })
    expect([String(stdout), String(stderr)]).toEqual(['out\n', 'err\n'])
    expect(output.result).toMatchObject({ outcome: 'exited', exitCode: 3 })
  })

  it('does not run a command twice', async () => {
    const id = jobId()
    const spec = { kind: 'exec', argv: ['sh', '-c', 'echo x >> twice; cat twice'] } as const
    const first = await run(boundary, spec, id)
    const second = await run(boundary, spec, id)
    expect(String(first.stdout)).toBe('x\n')
    expect(String(second.stdout)).toBe('x\n')
    expect((await boundary.jobs.start(id, spec, NEVER)).created).toBe(false)
  })

  it('reports why a command did not start', async () => {
    const { output } = await run(boundary, { kind: 'exec', argv: ['no-such-program'] })
    expect(output.result).toMatchObject({ outcome: 'not_started', error: expect.stringMatching(/ENOENT/) })
  })

  it('sends a command its input in parts', async () => {
    const id = jobId()
    const { output } = await boundary.jobs.start(id, { kind: 'exec', argv: ['cat'], stdin: true }, NEVER)
    const read = collect(output)
    const part = (bytes: string) => Readable.from([Buffer.from(bytes)])
    expect(await boundary.jobs.input(id, 0, part('one '), false, NEVER)).toEqual({ offset: 4 })
    // Sends the input again from the beginning, as after a lost connection. The sidecar ignores bytes that it already
    // has.
    expect(await boundary.jobs.input(id, 0, part('one two'), true, NEVER)).toEqual({ offset: 7 })
    expect(String((await read).stdout)).toBe('one two')
  })

  it('ends a command with a signal', async () => {
    const id = jobId()
    const { output } = await boundary.jobs.start(id, { kind: 'exec', argv: ['sleep', '100'] }, NEVER)
    expect(await boundary.jobs.status(id, NEVER)).toMatchObject({ id, state: 'running' })
    await boundary.jobs.control(id, { signal: 'SIGTERM' }, NEVER)
    expect((await collect(output)).output.result).toMatchObject({ outcome: 'signalled', signal: 'SIGTERM' })
    await boundary.jobs.forget(id, NEVER)
    expect(await boundary.jobs.status(id, NEVER)).toBe(undefined)
  })

  it('opens a real terminal of the requested size', async () => {
    const id = jobId()
    const argv = ['sh', '-c', 'tty; stty size; read line; stty size']
    const { output } = await boundary.jobs.start(id, { kind: 'terminal', argv, cols: 90, rows: 30 }, NEVER)
    const read = collect(output)
    await boundary.jobs.control(id, { cols: 100, rows: 40 }, NEVER)
    await boundary.jobs.input(id, 0, Readable.from([Buffer.from('\n')]), false, NEVER)
    const text = String((await read).stdout)
    expect(text).toMatch(/\/dev\/pts\/\d+\r\n/)
    expect(text).toMatch(/40 100\r\n$/)
  })

  it('writes, stats, reads, moves and removes files', async () => {
    const { files } = boundary
    const content = randomBytes(3_000_000)
    const upload = { upload: jobId(), path: 'a/b.bin', bytes: content.length, mode: 0o640 }
    await files.change({ kind: 'mkdir', path: 'a', parents: false }, NEVER)
    // Writes in two parts, as after a lost connection.
    const half = await files.write(upload, 0, Readable.from([content.subarray(0, 1_000_000)]), NEVER)
    expect(half).toEqual({ offset: 1_000_000, committed: false })
    expect(await files.getUpload(upload.upload, NEVER)).toEqual(half)
    const rest = await files.write(upload, half.offset, Readable.from([content.subarray(1_000_000)]), NEVER)
    expect(rest).toEqual({ offset: content.length, committed: true })
    expect(readFileSync(join(sidecar.workspace, 'a/b.bin')).equals(content)).toBe(true)
    expect(await files.stat('a/b.bin', NEVER)).toMatchObject({ type: 'file', bytes: content.length })
    expect((await files.list('a', undefined, 10, NEVER)).entries.length).toBe(1)
    const { body, bytes, etag } = await files.read('a/b.bin', { offset: 5, length: 100_000 }, NEVER)
    expect(bytes).toBe(content.length)
    expect(Buffer.concat(await body.toArray()).equals(content.subarray(5, 100_005))).toBe(true)
    writeFileSync(join(sidecar.workspace, 'a/b.bin'), 'other')
    await expect(files.read('a/b.bin', { offset: 0, etag }, NEVER)).rejects.toMatchObject({
      code: 'conflict',
    })
    await files.change({ kind: 'move', from: 'a/b.bin', to: 'c.bin' }, NEVER)
    await files.change({ kind: 'remove', path: 'c.bin', recursive: false }, NEVER)
    await expect(files.stat('c.bin', NEVER)).rejects.toMatchObject({ code: 'not_found' })
  })

  it('reports changes in a folder', async () => {
    mkdirSync(join(sidecar.workspace, 'watched'))
    const controller = new AbortController()
    const events = await boundary.files.watch('watched', false, 0, controller.signal)
    writeFileSync(join(sidecar.workspace, 'watched/new'), 'x')
    // The events may begin with a gap, because earlier changes are unknown.
    let seen = ''
    while (!/"path":".*new"/.test(seen)) {
      const [chunk] = await once(events, 'data')
      seen += chunk
    }
    controller.abort()
  })

  it('packs a folder and unpacks it in another one', async () => {
    const folder = join(sidecar.workspace, 'packed')
    mkdirSync(folder)
    writeFileSync(join(folder, 'file'), randomBytes(500_000))
    const out = await run(boundary, { kind: 'tar-out', path: 'packed' })
    expect(out.output.result?.exitCode).toBe(0)
    const id = jobId()
    const { output } = await boundary.jobs.start(id, { kind: 'tar-in', path: 'unpacked' }, NEVER)
    const read = collect(output)
    await boundary.jobs.input(id, 0, Readable.from([out.stdout]), true, NEVER)
    expect((await read).output.result?.exitCode).toBe(0)
    const unpacked = readFileSync(join(sidecar.workspace, 'unpacked/packed/file'))
    expect(unpacked.equals(readFileSync(join(folder, 'file')))).toBe(true)
  })

  it('connects to a port in the sandbox, and reports when nothing listens on it', async () => {
    const server = createServer((request, response) => response.end(`you asked for ${request.url}`))
    await new Promise<void>((resolve) => server.listen(0, '127.0.0.1', resolve))
    const { port } = server.address() as AddressInfo
    const stream = await boundary.inside.connect(port, NEVER)
    stream.write('GET /x HTTP/1.1\r\nhost: a\r\nconnection: close\r\n\r\n')
    expect(await text(stream)).toMatch(/you asked for \/x$/)
    await new Promise((resolve) => server.close(resolve))
    await expect(boundary.inside.connect(port, NEVER)).rejects.toMatchObject({ code: 'refused_inside' })
  })

  it('delivers connections from the sandbox', async () => {
    const { gatewayPort } = boundary.hello
    const url = `http://127.0.0.1:${gatewayPort}/model`
    const before = boundary.counts().connections
    const pending = run(boundary, { kind: 'exec', argv: ['curl', '-sS', '--noproxy', '*', url] })
    while (sidecar.inbound.length === 0) await new Promise((resolve) => setTimeout(resolve, 5))
    const stream = sidecar.inbound.pop()!
    expect(String((await stream.take(1).toArray())[0])).toMatch(/^GET \/model HTTP\/1.1/)
    expect(boundary.counts().connections).toBe(before + 1)
    const { output } = await pending
    expect(output.result?.outcome).toBe('exited')
  })

  it('lists processes and metrics, and sends signals', async () => {
    const id = jobId()
    const { output } = await boundary.jobs.start(id, { kind: 'exec', argv: ['sleep', '100'] }, NEVER)
    const { pid } = (await boundary.jobs.status(id, NEVER))!
    const found = (await boundary.inside.processes(NEVER)).find((process) => process.pid === pid)
    expect(found).toMatchObject({ name: 'sleep', job: id })
    expect((await boundary.inside.metrics(NEVER)).runningJobs).toBeGreaterThan(0)
    await boundary.inside.signal(pid!, 'SIGKILL', NEVER)
    expect((await collect(output)).output.result).toMatchObject({ outcome: 'signalled', signal: 'SIGKILL' })
  })
})

describe('a lost connection', () => {
  it('loses and repeats no byte of the output', async () => {
    await using own = await startSidecar()
    const id = jobId()
    const argv = [
      'sh',
      '-c',
      'i=0; while [ $i -lt 20000 ]; do echo "line $i of the output"; i=$((i+1)); done',
    ]
    const log: Buffer[] = []
    let position = 0
    let drops = 0
    for (let ended = false; !ended; ) {
      const { jobs } = await own.boundary()
      const output =
        position === 0
          ? (await jobs.start(id, { kind: 'exec', argv }, NEVER)).output
          : await jobs.output(id, position, NEVER)
      const frames = new FrameReader()
      let dropped: Promise<void> | undefined
      try {
        for await (const chunk of output) {
          for (const { type, payload } of frames.push(chunk as Buffer)) {
            if (!isInLog(type)) continue
            position += 5 + payload.length
            if (type === FRAME.stdout) log.push(Buffer.from(payload))
            if (type === FRAME.exit) ended = true
          }
          if (drops++ < 20) dropped ??= own.drop()
        }
      } catch (error) {
        expect(error).toMatchObject({ code: 'boundary_failed', details: { brokeOff: true } })
      }
      await dropped
    }
    const expected = Array.from({ length: 20_000 }, (_, i) => `line ${i} of the output\n`).join('')
    expect(drops).toBeGreaterThan(0)
    expect(Buffer.concat(log).toString()).toBe(expected)
  })

  it('loses and repeats no byte of the input', async () => {
    await using own = await startSidecar()
    const id = jobId()
    const input = randomBytes(8_000_000)
    const first = await own.boundary()
    await first.jobs.start(id, { kind: 'exec', argv: ['sha256sum'], stdin: true }, NEVER)
    let offset = 0
    for (let drops = 0; offset < input.length; drops++) {
      const { jobs } = await own.boundary()
      offset = (await jobs.status(id, NEVER))!.inputOffset
      const body = new PassThrough()
      const sent = jobs.input(id, offset, body, true, NEVER)
      body.write(input.subarray(offset, offset + 1_000_000))
      if (drops < 5) void own.drop()
      else body.end(input.subarray(offset + 1_000_000))
      offset = await sent.then(
        (answer) => answer.offset,
        () => offset,
      )
    }
    const { jobs } = await own.boundary()
    const { stdout } = await collect(await jobs.output(id, 0, NEVER))
    expect(String(stdout).slice(0, 64)).toBe(createHash('sha256').update(input).digest('hex'))
  })

  it('does not stop a running job', async () => {
    await using own = await startSidecar()
    const { jobs } = await own.boundary()
    const id = jobId()
    await jobs.start(id, { kind: 'exec', argv: ['sh', '-c', 'sleep 0.3; echo done > done'] }, NEVER)
    await own.drop()
    const again = await own.boundary()
    await collect(await again.jobs.output(id, 0, NEVER))
    expect(existsSync(join(own.workspace, 'done'))).toBe(true)
  })

  it('keeps a finished upload in place, and continues an unfinished one', async () => {
    await using own = await startSidecar()
    const content = randomBytes(2_000_000)
    const spec = (path: string) => ({ upload: jobId(), path, bytes: content.length, mode: 0o644 })
    const [finished, half] = [spec('finished.bin'), spec('half.bin')]
    const first = (await own.boundary()).files
    const committed = { offset: content.length, committed: true }
    expect(await first.write(finished, 0, Readable.from([content]), NEVER)).toEqual(committed)
    await first.write(half, 0, Readable.from([content.subarray(0, 1_000_000)]), NEVER)
    await own.drop()

    const { files } = await own.boundary()
    const inPlace = (path: string) => readFileSync(join(own.workspace, path)).equals(content)
    expect(await files.getUpload(finished.upload, NEVER)).toEqual(committed)
    // The client repeats an upload whose answer was lost.
    expect(await files.write(finished, 0, Readable.from([content]), NEVER)).toEqual(committed)
    expect(inPlace('finished.bin')).toBe(true)
    expect(existsSync(join(own.workspace, 'half.bin'))).toBe(false)
    expect(await files.getUpload(half.upload, NEVER)).toEqual({ offset: 1_000_000, committed: false })
    const rest = Readable.from([content.subarray(1_000_000)])
    expect(await files.write(half, 1_000_000, rest, NEVER)).toEqual(committed)
    expect(inPlace('half.bin')).toBe(true)
  })
})

describe('a frozen sidecar', () => {
  it('is detected by the deadline of a request', async () => {
    await using own = await startSidecar()
    const { jobs } = await own.boundary()
    own.process.kill('SIGSTOP')
    await expect(jobs.list(AbortSignal.timeout(500))).rejects.toMatchObject({ code: 'interrupted' })
    own.process.kill('SIGCONT')
    expect(await jobs.list(NEVER)).toEqual([])
  })
})

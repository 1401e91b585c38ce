import { createHash, randomBytes } from 'node:crypto'
import { readFileSync } from 'node:fs'
import { Readable } from 'node:stream'
import { afterAll, beforeAll, describe, expect, it } from 'vitest'
import { newId } from '../lib/ids.ts'
import { type ApiScene, apiScene } from '../operator/operator.fixture.ts'
import { attachJob, runJob } from './run-job.ts'
import { readFile, tarIn, tarOut, writeFile } from './transfer.ts'

let api: ApiScene
beforeAll(async () => {
  api = await apiScene()
  await api.create('place')
})
afterAll(() => api[Symbol.asyncDispose]())

/** Returns lengths that are not evenly distributed, so that cuts fall into heads, bodies and the middle of frames. */
function somewhere(least: number, most: number): () => number {
  return () => Math.floor(least * (most / least) ** Math.random())
}

const sha256 = (bytes: Buffer) => createHash('sha256').update(bytes).digest('hex')
const job = () => newId('job', Date.now())

function pieces(bytes: Buffer, length: number): Readable {
  const parts: Buffer[] = []
  for (let at = 0; at < bytes.length; at += length) parts.push(bytes.subarray(at, at + length))
  return Readable.from(parts, { objectMode: false })
}

async function run(client: ApiScene['client'], argv: readonly string[], stdin?: Readable) {
  const out: Buffer[] = []
  const err: Buffer[] = []
  const started: { receiptId: string; created: boolean }[] = []
  const end = await runJob(
    client,
    'place',
    { kind: 'exec', argv: [...argv], stdin: stdin !== undefined },
    {
      jobId: job(),
      ...(stdin && { stdin }),
      // The chunk is copied, because its bytes are valid only during the call.
      onStdout: (chunk) => void out.push(Buffer.from(chunk)),
      onStderr: (chunk) => void err.push(Buffer.from(chunk)),
      onStarted: (reported) => started.push(reported),
    },
  )
  return { ...end, stdout: Buffer.concat(out), stderr: Buffer.concat(err), started }
}

describe('a job over a stable connection', () => {
  it('delivers both streams, the end and the receipt', async () => {
    const ran = await run(api.client, ['sh', '-c', 'echo out; echo err >&2; exit 7'])
    expect(ran.stdout.toString()).toBe('out\n')
    expect(ran.stderr.toString()).toBe('err\n')
    expect(ran.result).toMatchObject({ outcome: 'exited', exitCode: 7 })
    expect(ran.started).toEqual([{ created: true, receiptId: expect.stringMatching(/^rcpt_/) }])
  })

  it('does not wait for input that the command does not read', async () => {
    const endless = new Readable({ read() {} })
    const ran = await run(api.client, ['true'], endless)
    expect(ran.result.exitCode).toBe(0)
    expect(endless.destroyed).toBe(true)
  })

  it('reports that its input cannot be read', async () => {
    const broken = new Readable({ read: () => broken.destroy(new Error('no such tape')) })
    await expect(run(api.client, ['cat'], broken)).rejects.toMatchObject({
      code: 'usage',
      message: expect.stringContaining('no such tape'),
    })
  })

  it('throws what the caller’s own function throws', async () => {
    const failing = runJob(
      api.client,
      'place',
      { kind: 'exec', argv: ['echo', 'a'] },
      {
        jobId: job(),
        onStdout() {
          throw Object.assign(new Error('the reader left'), { code: 'EPIPE' })
        },
      },
    )
    await expect(failing).rejects.toThrow('the reader left')
  })

  it('continues when its client stops, and a client can attach to it again', async () => {
    const jobId = job()
    const controller = new AbortController()
    const left = runJob(
      api.client,
      'place',
      { kind: 'exec', argv: ['sh', '-c', 'echo one; read line; echo "$line"'], stdin: true },
      { jobId, signal: controller.signal, onStdout: () => controller.abort(new Error('left')) },
    )
    await expect(left).rejects.toThrow('left')
    const out: string[] = []
    const end = await attachJob(api.client, 'place', {
      jobId,
      stdin: Readable.from(['two\n']),
      onStdout: (chunk) => void out.push(chunk.toString()),
    })
    expect(out.join('')).toBe('one\ntwo\n')
    expect(end.result.exitCode).toBe(0)
  })
})

describe('a connection that breaks again and again', () => {
  it('loses and duplicates no byte of a job’s input and output', async () => {
    const client = await api.breakingClient(somewhere(500, 2_000_000))
    const input = randomBytes(6 * 1024 * 1024)
    const ran = await run(client, ['cat'], pieces(input, 50_000))
    expect(sha256(ran.stdout)).toBe(sha256(input))
    expect(ran.result).toMatchObject({ outcome: 'exited', exitCode: 0, stdinBytes: input.length })
    expect(client.breaks()).toBeGreaterThan(3)
  })

  it('leaves only the end of the delivered output in the sandbox', async () => {
    const client = await api.breakingClient(somewhere(50_000, 3_000_000))
    const jobId = job()
    let bytes = 0
    const spec = { kind: 'exec', argv: ['head', '-c', '9000000', '/dev/zero'] } as const
    const end = await runJob(
      client,
      'place',
      { ...spec, argv: [...spec.argv] },
      {
        jobId,
        onStdout(chunk) {
          bytes += chunk.length
        },
      },
    )
    expect([bytes, end.lostBytes]).toEqual([9_000_000, 0])
    const { first, position } = await api.client.jobs.get('place', jobId)
    expect(position).toBe(end.position)
    expect(position - first).toBeLessThan(1_000_000)
    // A client that only attaches gets the number of missing bytes, and removes nothing.
    for (let looks = 0; looks < 2; looks++)
      expect(await attachJob(api.client, 'place', { jobId })).toMatchObject({ position, lostBytes: first })
  })

  it('never runs a command twice', async () => {
    for (let i = 0; i < 10; i++) {
      const client = await api.breakingClient(somewhere(100, 1_500))
      const ran = await run(client, ['sh', '-c', `echo x >> ran-${i}; cat ran-${i}`])
      expect(ran.stdout.toString()).toBe('x\n')
    }
  })

  it('copies a file in and out completely', async () => {
    const client = await api.breakingClient(somewhere(5_000, 3_000_000))
    const bytes = randomBytes(8 * 1024 * 1024)
    await writeFile(client, 'place', 'file.bin', {
      bytes: bytes.length,
      mode: 0o600,
      open: (offset) => pieces(bytes.subarray(offset), 64 * 1024),
    })
    const out: Buffer[] = []
    let reported = 0
    for await (const chunk of readFile(client, 'place', 'file.bin', { onProgress: (at) => (reported = at) }))
      out.push(chunk)
    expect(sha256(Buffer.concat(out))).toBe(sha256(bytes))
    expect(reported).toBe(bytes.length)
    expect(client.breaks()).toBeGreaterThan(3)
    expect(await api.client.files.stat('place', 'file.bin')).toMatchObject({
      bytes: bytes.length,
      type: 'file',
    })
  })

  it('copies a folder in and out completely', async () => {
    const client = await api.breakingClient(somewhere(5_000, 2_000_000))
    await run(api.client, ['sh', '-c', 'mkdir -p from/a && head -c 6000000 /dev/urandom > from/a/b'])
    const archive: Buffer[] = []
    const packed = await tarOut(client, 'place', 'from', {
      jobId: job(),
      onStdout: (chunk) => void archive.push(Buffer.from(chunk)),
    })
    expect(packed.result.exitCode).toBe(0)
    await run(api.client, ['mkdir', 'to'])
    const unpacked = await tarIn(client, 'place', 'to', pieces(Buffer.concat(archive), 100_000), {
      jobId: job(),
    })
    expect(unpacked.result.exitCode).toBe(0)
    const same = await run(api.client, ['sh', '-c', 'cmp from/a/b "$(find to -name b)"'])
    expect(same.result.exitCode).toBe(0)
    expect(client.breaks()).toBeGreaterThan(2)
  })

  it('follows events without reporting one twice', async () => {
    const wanted: unknown[] = []
    for await (const event of api.client.sandboxes.events('place')) wanted.push(event)
    const client = await api.breakingClient(somewhere(300, 100_000))
    const reported: unknown[] = []
    for await (const event of client.sandboxes.events('place')) reported.push(event)
    expect(reported.slice(0, wanted.length)).toEqual(wanted)
  })
})

describe('a supervisor that does not come back', () => {
  it('is reported as unreachable after the timeout', async () => {
    const { createClient } = await import('./client.ts')
    using client = createClient({
      connect: async () => ({ socketPath: '/nonexistent/craik.sock', token: 'none' }),
      timeoutMs: 50,
    })
    await expect(client.sandboxes.list()).rejects.toMatchObject({ code: 'supervisor_unreachable' })
  })

  it('gets no second request to create a sandbox that it may have created', async () => {
    const client = await api.breakingClient(() => 250)
    await expect(client.sandboxes.create({ name: 'x'.repeat(60) })).rejects.toMatchObject({
      code: 'supervisor_unreachable',
      message: expect.stringContaining('may have been executed'),
    })
  })
})

it('the SDK imports no schema, so that a command that uses it starts fast', () => {
  const source = [
    'client',
    'run-job',
    'transfer',
    'api-connection',
    'transport',
    'feed-job',
    'api-paths',
    'follow',
  ]
    .map((name) => readFileSync(new URL(`./${name}.ts`, import.meta.url), 'utf8'))
    .join('\n')
  expect(source).not.toMatch(/^import \{[^}]*\} from '[^']*api\/requests\.ts'/m)
})

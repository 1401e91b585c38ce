/** Transfers that break off every time come to an end, and those that only take long do not. */
import { mkdtempSync, rmSync } from 'node:fs'
import { createServer, type IncomingMessage, type ServerResponse } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { Readable } from 'node:stream'
import { setTimeout as sleep } from 'node:timers/promises'
import { describe, expect, it } from 'vitest'
import { newId } from '../lib/ids.ts'
import { listenUnixSocket } from '../lib/unix-socket.ts'
import { HEADER } from '../operator/api/api-constants.ts'
import { type ApiClient, createClient } from './client.ts'
import { attachJob } from './run-job.ts'
import { readFile, writeFile } from './transfer.ts'

type Handler = (request: IncomingMessage, response: ServerResponse) => unknown

/** Starts a server in place of the supervisor. */
async function serve(handle: Handler, timeoutMs?: number) {
  const folder = mkdtempSync(join(tmpdir(), 'craik-tries-'))
  const socketPath = join(folder, 'api.sock')
  const server = createServer((request, response) => void handle(request, response))
  using _name = await listenUnixSocket(server, socketPath, 0o600)
  const client = createClient({
    connect: async () => ({ socketPath, token: 'any' }),
    ...(timeoutMs !== undefined && { timeoutMs }),
  })
  return {
    client,
    [Symbol.dispose]() {
      client.close()
      server.closeAllConnections()
      server.close()
      rmSync(folder, { recursive: true, force: true })
    },
  }
}

/** Sends the head of a response, and nothing of its body. */
function breakOff(response: ServerResponse, headers: Record<string, string> = {}): void {
  response.writeHead(200, headers)
  response.flushHeaders()
  setImmediate(() => response.destroy())
}

const GIVEN_UP = { code: 'supervisor_unreachable', message: expect.stringContaining('times in a row') }

describe('a supervisor that breaks off each time', () => {
  it('does not get requests for a file forever', async () => {
    using scene = await serve((_, response) => breakOff(response, { [HEADER.size]: '10', etag: 'same' }))
    await expect(whole(readFile(scene.client, 'place', 'file'))).rejects.toMatchObject(GIVEN_UP)
  })

  it('does not get a file forever', async () => {
    using scene = await serve((request, response) => {
      if (request.method === 'PUT') request.destroy()
      else response.end(JSON.stringify({ offset: 0, committed: false }))
    })
    await expect(writeFile(scene.client, 'place', 'file', file(10))).rejects.toMatchObject(GIVEN_UP)
  })

  it('does not get requests for the output of a job forever', async () => {
    using scene = await serve((_, response) => breakOff(response))
    const jobId = newId('job', Date.now())
    await expect(attachJob(scene.client, 'place', { jobId })).rejects.toMatchObject(GIVEN_UP)
  })

  it('gets further requests as long as a part arrives each time', async () => {
    const bytes = Buffer.alloc(110, 'x')
    using scene = await serve((request, response) => {
      const offset = Number(new URL(request.url ?? '', 'http://craik').searchParams.get('offset'))
      response.writeHead(200, { [HEADER.size]: String(bytes.length), etag: 'same' })
      response.write(bytes.subarray(offset, offset + 1))
      setImmediate(() => (offset === bytes.length - 1 ? response.end() : response.destroy()))
    })
    expect(await whole(readFile(scene.client, 'place', 'file'))).toEqual(bytes)
  })
})

describe('a supervisor that is replaced now and then', () => {
  it('runs a command to its end that takes longer than the timeout each time', async () => {
    let requestCount = 0
    using scene = await serve(async (_, response) => {
      await sleep(100)
      if (++requestCount <= 3) response.destroy()
      else response.end(JSON.stringify({ exit_code: 0 }))
    }, 20)
    expect(await exec(scene.client)).toEqual({ exit_code: 0 })
    expect(requestCount).toBe(4)
  })

  it('is found again for a waiting call when the call that started the search aborts', async () => {
    using scene = await serve((_, response) => response.end(JSON.stringify({ exit_code: 0 })))
    const { endpoint } = await scene.client.link.persist(undefined, async (transport) => transport)
    const controller = new AbortController()
    using client = createClient({
      async connect(until) {
        if (until === controller.signal) await sleep(60_000, undefined, { signal: until })
        return endpoint
      },
    })
    const left = client.supervisor.status({ signal: controller.signal })
    const waiting = exec(client)
    controller.abort(new Error('it left'))
    await expect(left).rejects.toThrow('it left')
    expect(await waiting).toEqual({ exit_code: 0 })
  })

  it('is reported as unreachable when it does not come back', async () => {
    using scene = await serve((request) => request.destroy(), 20)
    await expect(exec(scene.client)).rejects.toMatchObject({ code: 'supervisor_unreachable' })
  })
})

async function whole(chunks: AsyncIterable<Buffer>): Promise<Buffer> {
  const read: Buffer[] = []
  for await (const chunk of chunks) read.push(chunk)
  return Buffer.concat(read)
}

function exec(client: ApiClient) {
  return client.sandboxes.exec('place', { argv: ['sleep', '1'], job_id: newId('job', Date.now()) })
}

function file(bytes: number) {
  return { bytes, mode: 0o600, open: () => Readable.from([Buffer.alloc(bytes)], { objectMode: false }) }
}

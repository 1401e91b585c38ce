import { createServer, type RequestListener } from 'node:http'
import { join } from 'node:path'
import { describe, expect, it } from 'vitest'
import { tempFolder } from '../../test/temp-folder.ts'
import { CraikError } from '../errors.ts'
import { type ApiClient, createClient } from './client.ts'
import { readFile } from './transfer.ts'
import { LostConnection } from './transport.ts'

const REASON = new CraikError('interrupted', 'interrupted')

/** Returns the error of `use` when the caller aborts it during the pause between two attempts. */
async function abortedBetweenAttempts(
  listener: RequestListener,
  use: (client: ApiClient, signal: AbortSignal) => Promise<unknown>,
): Promise<unknown> {
  const socketPath = join(tempFolder('craik-connection-'), 'api.sock')
  const controller = new AbortController()
  const server = createServer((request, response) => {
    listener(request, response)
    // The connection breaks first, and the abort arrives in the pause after it.
    response.once('close', () => setTimeout(() => controller.abort(REASON), 5))
  })
  server.listen(socketPath)
  using client = createClient({ connect: async () => ({ socketPath, token: 'none' }) })
  try {
    return await use(client, controller.signal).catch((error: unknown) => error)
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

const breakOff: RequestListener = (request) => void request.socket.destroy()

describe('a caller that aborts between two attempts gets its own reason', () => {
  it('while the supervisor cannot be reached', async () => {
    const controller = new AbortController()
    using client = createClient({
      async connect() {
        setImmediate(() => controller.abort(REASON))
        throw new LostConnection(undefined, false)
      },
    })
    const asked = client.sandboxes.list({ signal: controller.signal })
    await expect(asked).rejects.toBe(REASON)
  })

  it('for a request', async () => {
    const error = await abortedBetweenAttempts(breakOff, (client, signal) =>
      client.sandboxes.list({ signal }),
    )
    expect(error).toBe(REASON)
  })

  it('for a stream of events', async () => {
    const begin: RequestListener = (_request, response) => {
      response.write('{"at_ms":1,"type":"created"}\n', () => response.destroy())
    }
    const error = await abortedBetweenAttempts(begin, async (client, signal) => {
      for await (const _ of client.sandboxes.events('place', { follow: true, signal }));
    })
    expect(error).toBe(REASON)
  })

  it('for a file', async () => {
    const begin: RequestListener = (_request, response) => {
      response.writeHead(200, { 'craik-size': '100', etag: '"1"' })
      response.write(Buffer.alloc(10), () => response.destroy())
    }
    const error = await abortedBetweenAttempts(begin, async (client, signal) => {
      for await (const _ of readFile(client, 'place', '/file', { signal }));
    })
    expect(error).toBe(REASON)
  })
})

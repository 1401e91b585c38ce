import { createServer } from 'node:http'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { tempFolder } from '../../test/temp-folder.ts'
import { CraikError } from '../errors.ts'
import { createClient } from './client.ts'

/** Sends ten of a hundred bytes, then calls `afterwards`. Returns the error of the read. */
async function readBroken(signal: AbortSignal, afterwards: (breakOff: () => void) => void): Promise<unknown> {
  const socketPath = join(tempFolder('craik-bundle-'), 'api.sock')
  const server = createServer((_request, response) => {
    response.writeHead(200, { 'craik-size': '100', 'craik-digest': 'sha256:0' })
    response.write(Buffer.alloc(10))
  })
  server.listen(socketPath)
  using client = createClient({ connect: async () => ({ socketPath, token: 'none' }) })
  try {
    const { chunks } = await client.snapshots.read('before', { signal })
    for await (const _ of chunks) afterwards(() => server.closeAllConnections())
    return undefined
  } catch (error) {
    return error
  } finally {
    server.closeAllConnections()
    server.close()
  }
}

it('reports how far it got when the supervisor disconnects in the middle of a snapshot', async () => {
  const error = await readBroken(new AbortController().signal, (breakOff) => breakOff())
  expect(error).toMatchObject({
    code: 'supervisor_unreachable',
    message: 'the snapshot ended at byte 10 of 100',
    hint: expect.stringContaining('try again'),
  })
})

it('ends with the reason of the caller that aborts it', async () => {
  const controller = new AbortController()
  const reason = new CraikError('interrupted', 'interrupted')
  expect(await readBroken(controller.signal, () => controller.abort(reason))).toBe(reason)
})

import { once } from 'node:events'
import { createServer } from 'node:http'
import type { AddressInfo } from 'node:net'
import Docker from 'dockerode'
import { afterEach, expect, it } from 'vitest'
import { setPaused } from './container-instance.ts'

const servers: ReturnType<typeof createServer>[] = []
afterEach(() => {
  for (const server of servers.splice(0)) server.close()
})

/** Creates an engine that answers pause requests with the test's refusals, in turn, and then pauses. */
async function engineThat(...refusals: readonly string[]) {
  const left = [...refusals]
  let isPaused = false
  const requests: string[] = []
  const server = createServer((request, response) => {
    requests.push(`${request.method} ${request.url}`)
    if (request.method === 'GET') {
      response.end(JSON.stringify({ State: { Paused: isPaused } }))
      return
    }
    const refusal = left.shift()
    isPaused = refusal === undefined
    response.writeHead(refusal === undefined ? 204 : 500, { 'content-type': 'application/json' })
    response.end(refusal === undefined ? undefined : JSON.stringify({ message: refusal }))
  })
  servers.push(server)
  server.listen(0, '127.0.0.1')
  await once(server, 'listening')
  const { port } = server.address() as AddressInfo
  const container = new Docker({ host: '127.0.0.1', port, protocol: 'http' }).getContainer('box')
  const pauses = () => requests.filter((each) => each === 'POST /containers/box/pause').length
  return { container, pauses }
}

const BUSY = 'Cannot pause container box: OCI runtime pause failed: unable to freeze: unknown'

it('retries when the engine could not freeze a busy container', async () => {
  const { container, pauses } = await engineThat(BUSY, BUSY)
  await setPaused(container, true)
  expect(pauses()).toBe(3)
  await setPaused(container, true)
  expect(pauses()).toBe(3)
})

it('gives up after some attempts, and immediately for any other reason', async () => {
  const busy = await engineThat(...Array.from({ length: 10 }, () => BUSY))
  await expect(setPaused(busy.container, true)).rejects.toThrow('unable to freeze')
  expect(busy.pauses()).toBe(5)
  const other = await engineThat('Container box is not running')
  await expect(setPaused(other.container, true)).rejects.toThrow('is not running')
  expect(other.pauses()).toBe(1)
})

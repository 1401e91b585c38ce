import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { dialRelay } from './dial-relay.ts'
import { serveEngine } from './engine/engine.fixture.ts'
import { Engines } from './engines.ts'
import type { DockerHandle } from './handle.ts'

const HANDLE: DockerHandle = {
  container: 'c',
  engine: 'ONE',
  startedAt: '',
  pid: 1,
  hostUid: 1,
  limits: { memory: 'cgroup', processes: 'cgroup', cpu: 'not-asked', disk: 'not-asked' },
}

/** Records each exec that the engine creates, and answers its start with `answer`. */
async function countStarts(answer: (response: ServerResponse) => void) {
  const made: string[] = []
  const closed = Promise.withResolvers<void>()
  const pending = Promise.withResolvers<void>()
  const engine = await serveEngine({}, {}, (request, response) => {
    if (request.url === '/containers/c/exec') {
      request.setEncoding('utf8').on('data', (text: string) => made.push(text))
      request.once('end', () => response.writeHead(201).end('{"Id":"e"}'))
      return
    }
    request.socket.once('close', closed.resolve)
    pending.resolve()
    answer(response)
  })
  return { engine, made, asked: pending.promise, closed: closed.promise }
}

it('closes its connection to the engine when the sandbox has stopped in the meantime', async () => {
  const { engine, closed } = await countStarts((response) => {
    response.writeHead(409).end('{"message":"Container c is not running"}')
  })
  await using _ = engine
  const dialling = dialRelay(new Engines(engine.address), HANDLE, new AbortController().signal)
  await expect(dialling).rejects.toMatchObject({ code: 'conflict' })
  await closed
})

it('closes its connection when the caller cancels and the engine does not answer', async () => {
  const { engine, asked: pending, closed } = await countStarts(() => {})
  await using _ = engine
  const controller = new AbortController()
  const dialling = dialRelay(new Engines(engine.address), HANDLE, controller.signal)
  await pending
  controller.abort()
  await expect(dialling).rejects.toMatchObject({ code: 'interrupted' })
  await closed
})

it('sets detach keys that nobody sends', async () => {
  const { engine, made } = await countStarts((response) => void response.writeHead(409).end('{}'))
  await using _ = engine
  const dial = () => dialRelay(new Engines(engine.address), HANDLE, new AbortController().signal)
  for (let times = 0; times < 2; times++) await expect(dial()).rejects.toMatchObject({ code: 'conflict' })
  const [first, second] = made.map((text) => JSON.parse(text).DetachKeys as string)
  expect(first).toMatch(/^[0-9a-f](?:,[0-9a-f]){31}$/)
  expect(second).not.toBe(first)
})

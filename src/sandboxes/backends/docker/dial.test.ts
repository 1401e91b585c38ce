import type { ServerResponse } from 'node:http'
import { expect, it } from 'vitest'
import { dialRelay } from './dial.ts'
import { knownEngine } from './engine/engine.fixture.ts'
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

/** Says which exec it made, and answers its start as it is told. */
async function startedBy(answer: (response: ServerResponse) => void) {
  const made: string[] = []
  const closed = Promise.withResolvers<void>()
  const asked = Promise.withResolvers<void>()
  const engine = await knownEngine({}, {}, (request, response) => {
    if (request.url === '/containers/c/exec') {
      request.setEncoding('utf8').on('data', (text: string) => made.push(text))
      request.once('end', () => response.writeHead(201).end('{"Id":"e"}'))
      return
    }
    request.socket.once('close', closed.resolve)
    asked.resolve()
    answer(response)
  })
  return { engine, made, asked: asked.promise, closed: closed.promise }
}

it('leaves no connection to the engine behind when a sandbox has gone meanwhile', async () => {
  const { engine, closed } = await startedBy((response) => {
    response.writeHead(409).end('{"message":"Container c is not running"}')
  })
  await using _ = engine
  const dialling = dialRelay(new Engines(engine.address), HANDLE, new AbortController().signal)
  await expect(dialling).rejects.toMatchObject({ code: 'conflict' })
  await closed
})

it('leaves none behind when nobody wants it any more and the engine does not answer', async () => {
  const { engine, asked, closed } = await startedBy(() => {})
  await using _ = engine
  const leaving = new AbortController()
  const dialling = dialRelay(new Engines(engine.address), HANDLE, leaving.signal)
  await asked
  leaving.abort()
  await expect(dialling).rejects.toMatchObject({ code: 'interrupted' })
  await closed
})

it('tells an engine no keys that end the connection but such as nobody says', async () => {
  const { engine, made } = await startedBy((response) => void response.writeHead(409).end('{}'))
  await using _ = engine
  const dial = () => dialRelay(new Engines(engine.address), HANDLE, new AbortController().signal)
  for (let times = 0; times < 2; times++) await expect(dial()).rejects.toMatchObject({ code: 'conflict' })
  const [first, second] = made.map((text) => JSON.parse(text).DetachKeys as string)
  expect(first).toMatch(/^[0-9a-f](?:,[0-9a-f]){31}$/)
  expect(second).not.toBe(first)
})

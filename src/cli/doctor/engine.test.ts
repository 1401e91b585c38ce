import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { createServer, type RequestListener, type Server } from 'node:http'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { afterEach, beforeEach, expect, it } from 'vitest'
import { engineHealth } from './engine.ts'

let folder: string
let server: Server | undefined
beforeEach(() => {
  folder = mkdtempSync(join(tmpdir(), 'craik-engine-'))
})
afterEach(() => {
  server?.closeAllConnections()
  server?.close()
  server = undefined
  rmSync(folder, { recursive: true })
})

/** Something that listens where an engine would. */
async function listen(answer: RequestListener): Promise<NodeJS.ProcessEnv> {
  const path = join(folder, 'engine.sock')
  server = createServer(answer)
  await new Promise<void>((done) => server!.listen(path, done))
  return { DOCKER_HOST: `unix://${path}` }
}

it('says what an engine says of itself', async () => {
  const environment = await listen((request, response) => {
    const answers: Record<string, unknown> = {
      '/version': { Version: '28.2.1', Components: [{ Name: 'runc', Version: '1.3.0' }] },
      '/info': { CgroupVersion: '2', DefaultRuntime: 'runc' },
    }
    response.end(JSON.stringify(answers[request.url!]))
  })
  expect(await engineHealth(environment)).toEqual({
    name: 'docker',
    version: '28.2.1',
    state: 'ok',
    detail: 'local engine, runc 1.3.0, cgroup v2',
  })
})

it('warns of one that answers nonsense, nothing, or too much', async () => {
  for (const answer of [
    (_, response) => response.writeHead(500).end('{}'),
    (_, response) => response.end('not json'),
    (_, response) => response.end('x'.repeat(1024 * 1024)),
    (request) => request.socket.destroy(),
  ] satisfies RequestListener[]) {
    const environment = await listen(answer)
    expect(await engineHealth(environment)).toMatchObject({ state: 'warn', fix: expect.any(String) })
    await new Promise((done) => server!.close(done))
  }
})

it('is none where there is no socket, which is no fault', async () => {
  expect(await engineHealth({ DOCKER_HOST: `unix://${join(folder, 'none.sock')}` })).toMatchObject({
    state: 'none',
  })
  expect(await engineHealth({ DOCKER_HOST: 'tcp://127.0.0.1:1' })).toMatchObject({ state: 'none' })
})

it('warns of a socket that nobody listens on', async () => {
  writeFileSync(join(folder, 'stale.sock'), '')
  expect(await engineHealth({ DOCKER_HOST: `unix://${join(folder, 'stale.sock')}` })).toMatchObject({
    state: 'warn',
    detail: expect.stringContaining('ECONNREFUSED'),
  })
})

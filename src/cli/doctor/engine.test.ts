import { mkdtempSync, rmSync, writeFileSync } from 'node:fs'
import { tmpdir } from 'node:os'
import { join } from 'node:path'
import { expect, it } from 'vitest'
import { falseEngine, serveEngine } from '../../sandboxes/backends/docker/engine/engine.fixture.ts'
import { engineHealth } from './engine.ts'

const runc = (version: string) => ({ Components: [{ Name: 'runc', Version: version }] })

it.skipIf(process.platform !== 'linux')('reports what the engine says about itself', async () => {
  await using engine = await serveEngine({ Runtimes: { runc: {}, runsc: {} } })
  expect(await engineHealth(engine.address)).toEqual({
    name: 'docker',
    version: '28.5.2',
    state: 'ok',
    detail: 'local engine, runc 1.3.3, cgroup v2, gVisor',
  })
})

it('warns about a runc without the fixes of November 2025', async () => {
  for (const [version, state] of [
    ['1.1.5+ds1', 'warn'],
    ['1.2.7', 'warn'],
    ['1.2.8', 'ok'],
    ['1.3.2', 'warn'],
    ['1.3.3', 'ok'],
    ['1.4.0', 'ok'],
    ['1.10.0', 'ok'],
  ] as const) {
    await using engine = await serveEngine({}, runc(version))
    expect((await engineHealth(engine.address)).state, version).toBe(state)
  }
})

it('warns about limits that the engine does not enforce', async () => {
  await using engine = await serveEngine({ MemoryLimit: false })
  expect(await engineHealth(engine.address)).toMatchObject({
    state: 'warn',
    detail: expect.stringContaining('does not limit memory'),
  })
})

it('warns about an engine that answers with an error, garbage or too much, or does not answer', async () => {
  for (const answer of [
    (_, response) => response.writeHead(500).end('{}'),
    (_, response) => response.end('not json'),
    (_, response) => response.end('x'.repeat(1024 * 1024)),
    (request) => request.socket.destroy(),
  ] satisfies Parameters<typeof falseEngine>[0][]) {
    await using engine = await falseEngine(answer)
    expect(await engineHealth(engine.address)).toMatchObject({ state: 'warn', fix: expect.any(String) })
  }
})

it('reports none and no warning if no socket exists or the address is not a socket', async () => {
  expect(await engineHealth({ DOCKER_HOST: 'unix:///craik-none/engine.sock' })).toMatchObject({
    state: 'none',
  })
  expect(await engineHealth({ DOCKER_HOST: 'ssh://host.example' })).toMatchObject({ state: 'none' })
})

it('warns about a socket that no process listens on', async () => {
  const folder = mkdtempSync(join(tmpdir(), 'craik-engine-'))
  writeFileSync(join(folder, 'stale.sock'), '')
  expect(await engineHealth({ DOCKER_HOST: `unix://${join(folder, 'stale.sock')}` })).toMatchObject({
    state: 'warn',
    detail: expect.stringContaining('ECONNREFUSED'),
  })
  rmSync(folder, { recursive: true })
})

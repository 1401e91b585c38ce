import { execFileSync } from 'node:child_process'
import { mkdirSync, symlinkSync, writeFileSync } from 'node:fs'
import { createServer } from 'node:net'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { refuseSockets } from './workspace-sockets.ts'

let test: TestFolder
beforeEach(() => {
  test = new TestFolder()
  mkdirSync(test.path('project/deep/er'), { recursive: true })
})
afterEach(() => test[Symbol.dispose]())

async function listen(path: string): Promise<AsyncDisposable> {
  const server = createServer()
  await new Promise<void>((done) => server.listen(path, done))
  return { [Symbol.asyncDispose]: () => new Promise((done) => server.close(() => done())) }
}

describe('a workspace in place', () => {
  it('is refused with the names of its sockets', async () => {
    await using _one = await listen(test.path('project/deep/er/a.sock'))
    await expect(refuseSockets(test.path('project'))).rejects.toMatchObject({
      message: expect.stringContaining('sockets of the host: deep/er/a.sock'),
      // Perhaps no program listens there any longer. The file alone is enough for a refusal.
      hint: expect.stringContaining('remove their socket files'),
    })
  })

  it('is not refused for a pipe, unlike a folder that is mounted read-only', async () => {
    execFileSync('mkfifo', [test.path('project/deep/pipe')])
    await refuseSockets(test.path('project'))
    await expect(
      refuseSockets(test.path('project'), { what: 'the folder', pipes: true, instead: 'copy it' }),
    ).rejects.toMatchObject({
      message: 'the folder contains sockets or pipes of the host: deep/pipe',
      hint: expect.stringContaining('copy it'),
    })
  })

  it('is accepted if sockets are only behind links', async () => {
    mkdirSync(test.path('elsewhere'))
    await using _one = await listen(test.path('elsewhere/a.sock'))
    symlinkSync(test.path('elsewhere'), test.path('project/link'))
    await refuseSockets(test.path('project'))
  })

  it('is refused if it contains more files than Craik can check', async () => {
    for (let i = 0; i < 10; i++) writeFileSync(test.path(`project/${i}`), '')
    await expect(refuseSockets(test.path('project'), { maxEntries: 10 })).rejects.toThrow(
      'more files than Craik can check',
    )
    await refuseSockets(test.path('project'), { maxEntries: 12 })
  })
})

import { lstatSync, mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
import { Worker } from 'node:worker_threads'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { resolveWorkspace } from './workspace.ts'

let test: TestFolder
beforeEach(() => {
  test = new TestFolder()
  for (const name of ['users/ada/project', 'craik/state', 'elsewhere'])
    mkdirSync(test.path(name), { recursive: true })
})
afterEach(() => test[Symbol.dispose]())

const resolve = (workspace: string) =>
  resolveWorkspace(workspace, test.path('craik'), { HOME: test.path('users/ada') })

describe('a workspace', () => {
  it.each([
    '/',
    '/etc',
    '/etc/ssl',
    '/proc',
    '/proc/self',
    '/usr',
    '/tmp',
    '/home',
    '/root',
    '/run',
    '/dev/shm',
    '/sys',
    '/var',
    '/usr/../etc',
    '//',
    '/proc/self/root',
  ])('is never %s', (path) => {
    expect(() => resolve(path)).toThrow(/^the workspace /)
  })

  it('is never a home folder, a folder that contains one, or a link to either', () => {
    symlinkSync(test.path('users/ada'), test.path('link'))
    symlinkSync('/', test.path('root'))
    for (const name of ['users/ada', 'users', '.', 'link', 'root', 'link/..'])
      expect(() => resolve(test.path(name)), name).toThrow(/^the workspace /)
  })

  it('is never the cache with the programs that Craik executes, a folder that contains it, or a folder in it', () => {
    const environment = { HOME: test.path('users/ada'), XDG_CACHE_HOME: test.path('elsewhere/cache') }
    // The rule applies even before the cache exists.
    for (const name of ['elsewhere', 'elsewhere/cache', 'elsewhere/cache/craik/homes']) {
      mkdirSync(test.path(name), { recursive: true })
      expect(() => resolveWorkspace(test.path(name), test.path('craik'), environment), name).toThrow(
        'cache folder',
      )
    }
  })

  it('is never the Craik home or a folder in it', () => {
    symlinkSync(test.path('craik/state'), test.path('elsewhere/link'))
    for (const name of ['craik', 'craik/state', 'elsewhere/link', 'elsewhere/../craik'])
      expect(() => resolve(test.path(name)), name).toThrow('Craik’s own home')
  })

  it('is refused without its path in the message if it does not exist', () => {
    const missing = test.path('missing')
    expect(() => resolve(missing)).toThrow('cannot be opened as a folder')
    expect(() => resolve(missing)).not.toThrow(missing)
  })

  it('is the folder itself, never a link to it', () => {
    symlinkSync(test.path('users/ada/project'), test.path('link'))
    expect(() => resolve(test.path('link'))).toThrow('is behind a symbolic link')
    const folder = test.path('users/ada/project')
    const { uid, gid, dev, ino } = lstatSync(folder)
    expect(resolve(folder)).toEqual({ folder, identity: `${dev}:${ino}`, owner: { uid, gid }, covered: [] })
  })

  // Another thread keeps replacing the folder, or its parent, with a link.
  it.each(['swapped', 'swapped/inner'])(
    'is %s itself or refused, whatever replaces it meanwhile',
    async (name) => {
      for (const path of ['swapped/inner', 'evil/inner']) mkdirSync(test.path(path), { recursive: true })
      symlinkSync(test.path('evil'), test.path('link'))
      const requested = test.path(name)
      const { dev, ino } = lstatSync(requested)
      const swapping = new Worker(SWAPS, { eval: true, workerData: test.folder })
      try {
        await new Promise((done) => swapping.once('message', done))
        for (let round = 0; round < 20_000; round++) {
          const found = unlessRefused(() => resolve(requested))
          if (found === undefined) continue
          expect([found.folder, found.identity]).toEqual([requested, `${dev}:${ino}`])
        }
      } finally {
        await swapping.terminate()
      }
    },
  )

  it('has the Craik home covered if it contains it, also by another name', () => {
    const workspace = test.path('elsewhere')
    mkdirSync(join(workspace, 'deep/craik'), { recursive: true })
    symlinkSync(join(workspace, 'deep/craik'), test.path('alias'))
    for (const craikHome of [join(workspace, 'deep/craik'), test.path('alias')])
      expect(resolveWorkspace(workspace, craikHome, {})).toMatchObject({
        folder: workspace,
        covered: ['deep/craik'],
      })
  })
})

const SWAPS = `
  const { renameSync } = require('node:fs')
  const { parentPort, workerData: folder } = require('node:worker_threads')
  const move = (from, to) => renameSync(folder + '/' + from, folder + '/' + to)
  parentPort.postMessage('begins')
  for (;;) {
    move('swapped', 'aside')
    move('link', 'swapped')
    move('swapped', 'link')
    move('aside', 'swapped')
  }`

function unlessRefused<T>(attempt: () => T): T | undefined {
  try {
    return attempt()
  } catch (error) {
    expect(String(error)).toMatch(/cannot be opened as a folder|behind a symbolic link/)
    return undefined
  }
}

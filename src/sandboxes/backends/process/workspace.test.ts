import { mkdirSync, symlinkSync } from 'node:fs'
import { join } from 'node:path'
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
    ...['/', '/etc', '/etc/ssl', '/proc', '/proc/self', '/usr', '/tmp', '/home', '/root', '/run', '/dev/shm'],
    ...['/sys', '/var', '/usr/../etc', '//', '/proc/self/root'],
  ])('is never %s', (path) => {
    expect(() => resolve(path)).toThrow(/^the workspace /)
  })

  it('is never a home, what holds one, or a link to either', () => {
    symlinkSync(test.path('users/ada'), test.path('link'))
    symlinkSync('/', test.path('root'))
    for (const name of ['users/ada', 'users', '.', 'link', 'root', 'link/..'])
      expect(() => resolve(test.path(name)), name).toThrow(/^the workspace /)
  })

  it('is never Craik’s own folder, nor anything in it', () => {
    symlinkSync(test.path('craik/state'), test.path('elsewhere/link'))
    for (const name of ['craik', 'craik/state', 'elsewhere/link', 'elsewhere/../craik'])
      expect(() => resolve(test.path(name)), name).toThrow('Craik’s own home')
  })

  it('is a folder, and says so without naming it', () => {
    const missing = test.path('missing')
    expect(() => resolve(missing)).toThrow('not a folder')
    expect(() => resolve(missing)).not.toThrow(missing)
  })

  it('is the folder itself, never a link to it', () => {
    symlinkSync(test.path('users/ada/project'), test.path('link'))
    expect(() => resolve(test.path('link'))).toThrow('is reached through a link')
    const folder = test.path('users/ada/project')
    expect(resolve(folder)).toEqual({ folder, covered: [] })
  })

  it('has Craik’s home covered when it holds it, also by another name', () => {
    const workspace = test.path('elsewhere')
    mkdirSync(join(workspace, 'deep/craik'), { recursive: true })
    symlinkSync(join(workspace, 'deep/craik'), test.path('alias'))
    for (const craikHome of [join(workspace, 'deep/craik'), test.path('alias')])
      expect(resolveWorkspace(workspace, craikHome, {})).toEqual({
        folder: workspace,
        covered: ['deep/craik'],
      })
  })
})

import {
  linkSync,
  lstatSync,
  mkdirSync,
  readlinkSync,
  renameSync,
  rmSync,
  statSync,
  symlinkSync,
  writeFileSync,
} from 'node:fs'
import { join } from 'node:path'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { tempFolder } from '../../../../test/temp-folder.ts'
import { folderIdentity } from '../process/inspect-folder.ts'
import { fileIdentity } from '../process/workspace-guard.ts'
import { OpenPaths } from './hot-mount-paths.ts'

let folder: string
beforeEach(() => {
  folder = tempFolder('craik-held-')
  mkdirSync(join(folder, '.git/hooks'), { recursive: true })
  writeFileSync(join(folder, '.npmrc'), 'ours\n')
})
afterEach(() => rmSync(folder, { recursive: true, force: true }))

const identity = (path: string) => fileIdentity(lstatSync(join(folder, path), { bigint: true }))

describe.skipIf(process.platform !== 'linux')('opened paths for mounts (on Linux)', () => {
  it('keep their descriptor when their name changes', () => {
    using held = new OpenPaths(process.pid)
    const hooks = identity('.git/hooks')
    expect(held.path(folder, '.git/hooks', hooks)).toBe('/proc/self/fd/3')
    expect(held.path(folder, '.npmrc', identity('.npmrc'))).toBe('/proc/self/fd/4')
    renameSync(join(folder, '.git'), join(folder, 'gone'))
    symlinkSync('/etc', join(folder, '.git'))
    const [first] = held.descriptors
    expect(readlinkSync(`/proc/self/fd/${first}`)).toBe(join(folder, 'gone/hooks'))
  })

  it('are refused when they were replaced since the check, or lead through a link', () => {
    using held = new OpenPaths(process.pid)
    const [hooks, npmrc] = [identity('.git/hooks'), identity('.npmrc')]
    renameSync(join(folder, '.npmrc'), join(folder, 'real'))
    symlinkSync('real', join(folder, '.npmrc'))
    expect(() => held.path(folder, '.npmrc', npmrc)).toThrow('was replaced')
    expect(() => held.file(folder, '.npmrc')).toThrow('was replaced')
    renameSync(join(folder, '.git'), join(folder, 'away'))
    symlinkSync('away', join(folder, '.git'))
    expect(() => held.path(folder, '.git/hooks', hooks)).toThrow()
    linkSync(join(folder, 'real'), join(folder, 'second'))
    expect(held.path(folder, 'second', npmrc)).toMatch(/^\/proc\/self\/fd\//)
  })

  it('belong to the chosen folder and to no other', () => {
    using held = new OpenPaths(process.pid)
    const chosen = folderIdentity(statSync(folder, { bigint: true }))
    expect(held.isFolder(folder, chosen)).toBe(true)
    expect(held.isFolder(join(folder, '.git'), chosen)).toBe(false)
  })
})

import { execFileSync, spawnSync } from 'node:child_process'
import {
  chownSync,
  existsSync,
  linkSync,
  mkdirSync,
  readFileSync,
  rmSync,
  symlinkSync,
  truncateSync,
  writeFileSync,
} from 'node:fs'
import { afterEach, beforeEach, describe, expect, it } from 'vitest'
import { TestFolder } from '../../sandbox.fixture.ts'
import { writeExclude } from './git-exclude.ts'

let test: TestFolder
let exclude: string
beforeEach(() => {
  test = new TestFolder()
  mkdirSync(test.path('project/.git/info'), { recursive: true })
  exclude = test.path('project/.git/info/exclude')
  writeFileSync(exclude, '*.o\n')
})
afterEach(() => test[Symbol.dispose]())

/** Leaves a socket behind. */
const LISTEN = `require('net').createServer().listen(process.argv[1], () => process.kill(process.pid, 'SIGKILL'))`

const write = () => writeExclude(['.mcp.json', '.git/hooks'], test.path('project'), test.path('written'))

describe('the exclude file for git in a sandbox', () => {
  it('contains the workspace’s own patterns and the protected names that Craik created', () => {
    expect(write()).toBe(true)
    expect(readFileSync(test.path('written'), 'utf8')).toBe('*.o\n\n/.mcp.json\n/.git/hooks\n')
  })

  it('is not written without a repository, or for a repository without such a file', () => {
    rmSync(exclude)
    expect(write()).toBe(false)
    rmSync(test.path('project/.git'), { recursive: true })
    expect(write()).toBe(false)
  })

  const bad: [string, () => void][] = [
    ['a pipe', () => execFileSync('mkfifo', [exclude])],
    ['a folder', () => mkdirSync(exclude)],
    ['the target of a link', () => symlinkSync('/etc/passwd', exclude)],
    ['nowhere, through a link', () => symlinkSync('nowhere', exclude)],
    ['a socket', () => spawnSync(process.execPath, ['-e', LISTEN, exclude])],
    [
      'a file of somebody else by a second name',
      () => {
        writeFileSync(test.path('theirs'), 'secret')
        linkSync(test.path('theirs'), exclude)
      },
    ],
    [
      'larger than anybody writes',
      () => {
        writeFileSync(exclude, '')
        truncateSync(exclude, 1024 * 1024 + 1)
      },
    ],
  ]
  it.each(bad)('is not copied from %s', (_, make) => {
    rmSync(exclude)
    make()
    expect(write()).toBe(false)
    expect(existsSync(test.path('written'))).toBe(false)
  })

  if (process.getuid?.() === 0)
    it('is not copied from a file that does not belong to the owner of the workspace', () => {
      chownSync(test.path('project'), 12_345, 12_345)
      expect(write()).toBe(false)
      chownSync(exclude, 12_345, 12_345)
      expect(write()).toBe(true)
    })
})
